"""What is kept of a conversation: the transcript; later, with consent, the recording.

Must not know: torch, the web.
"""
