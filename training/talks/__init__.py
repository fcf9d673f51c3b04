"""Talks of the little world: when each side speaks. Pure; frames are 80 ms."""
