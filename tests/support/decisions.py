"""Talks from scripted decisions: a line for each side, in which # is a frame of speech."""

from __future__ import annotations

from personaplex_app.records.speech_gate import Decision
from personaplex_app.records.speech_turns import SpeechTurns
from personaplex_app.records.turn_taking import SIDES

YES, NO = Decision(True, 0, -20.0), Decision(False, 0, -70.0)


def scripted(look_at: int = -1, **sides: str) -> SpeechTurns:
    """The talk; who looks at its turns after some frame changes nothing."""
    turns = SpeechTurns()
    for index in range(max(map(len, sides.values()))):
        for side in SIDES:
            line = sides.get(side, "").ljust(index + 1)
            turns.decided(side, index, YES if line[index] == "#" else NO)
        if index == look_at:
            turns.taking()
    return turns
