"""Who looks on at every talk, from its first frame on: who speaks when, and whether the persona hears itself.

In: a session that was just joined or resumed. Out: its onlookers, the same ones after a resume. Must not know: how the
visitor is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from personaplex_app.audio import Pcm
from personaplex_app.engine.echo_guard import BEGAN, EchoGuard, Leak
from personaplex_app.engine.session import Session
from personaplex_app.records.speech_turns import SpeechTurns
from personaplex_app.records.transcript import Transcript
from personaplex_app.records.xray import ECHO
from personaplex_app.speech_detector import SpeechDetector


class EchoWatch:
    """An echo guard that writes down in the transcript what it found.

    Attributes:
        leaks: each when it began and when it was over, in order.
    """

    def __init__(self, transcript: Transcript) -> None:
        self.leaks: list[Leak] = []
        self._transcript = transcript
        self._guard = EchoGuard()

    def saw(self, index: int, heard: Pcm, spoken: Pcm) -> None:
        """The next frame."""
        leak = self._guard.saw(index, heard, spoken)
        if leak is not None:
            self.leaks.append(leak)
            self._transcript.note(leak.action, ECHO, "", leak.sentence, leak.frame)

    @property
    def count(self) -> int:
        """How often the persona began to hear itself."""
        return sum(leak.action == BEGAN for leak in self.leaks)


@dataclass(frozen=True)
class Looking:
    """One talk's onlookers."""

    turns: SpeechTurns
    echo: EchoWatch


def look_on(session: Session) -> Looking:
    """Finds them or makes them, which takes some milliseconds."""
    onlookers = session.onlookers
    turns, echo = onlookers.find(SpeechTurns), onlookers.find(EchoWatch)
    if turns is None:
        turns = SpeechTurns(SpeechDetector())
        onlookers.add(turns)
    if echo is None:
        echo = EchoWatch(session.transcript)
        onlookers.add(echo)
    return Looking(turns, echo)
