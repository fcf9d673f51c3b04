"""The marks of a miniature: talks with voices and wordings that training never had, through the app's own stepper."""
