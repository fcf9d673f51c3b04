"""The manners of a talk in numbers: frames of 80 ms, and chances."""

from __future__ import annotations

GREETING_CHANCE = {"service": 0.9, "casual": 0.15, "assistant": 0.15, "empty": 0.1}  # the agent speaks first
GREETING_DELAY = (2, 6)  # frames before it does
RESPONSE = (3, 5)  # frames from the end of a question to the answer
YIELD = (5, 8)  # frames from the beginning of an interruption to the agent's silence
BETWEEN_SENTENCES = (0, 2)
INTERRUPTION_CHANCE = 0.12
STOP_SHARE = 0.35  # of the interruptions that only stop the agent
NODDING_CHANCE = 0.25  # that the user says "uh huh" within a long answer
MM_CHANCE = 0.5  # that the agent says it within a story
LONG_PAUSE_CHANCE = 0.1
