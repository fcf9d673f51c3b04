"""Who looks on at every talk, from its first frame on: who speaks when.

In: a session that was just joined or resumed. Out: its onlookers, the same ones after a resume. Must not know: what the
visitor is told of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from personaplex_app.engine.session import Session
from personaplex_app.records.speech_turns import SpeechTurns
from personaplex_app.speech_detector import SpeechDetector


@dataclass(frozen=True)
class Looking:
    """One talk's onlookers."""

    turns: SpeechTurns


def look_on(session: Session) -> Looking:
    """Finds them or makes them, which takes some milliseconds."""
    onlookers = session.onlookers
    turns = onlookers.find(SpeechTurns)
    if turns is None:
        turns = SpeechTurns(SpeechDetector())
        onlookers.add(turns)
    return Looking(turns)
