"""Who speaks when: an onlooker that keeps each frame's decision and level of both sides, and no sound.

In: each frame as it was heard and spoken. Out: who speaks now and since when; utterances and turns so far, the running
ones included. A frame that was dropped on its way counts as silence. After four hours nothing more is kept.
Must not know: the web, what is made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from personaplex_app.audio import FRAME_RATE_HZ, FRAME_SECONDS, Pcm
from personaplex_app.records.speech_gate import LOWEST_DB, Decision, Detector, SpeechGate
from personaplex_app.records.turn_taking import (
    PAUSE_FRAMES,
    PERSONA,
    SHORTEST_FRAMES,
    SIDES,
    YOU,
    TurnTaking,
    Utterance,
)

MOST_FRAMES = round(4 * 3600 * FRAME_RATE_HZ)


@dataclass(frozen=True)
class Turn:
    """Of one side (`you`, `persona`), in seconds since the talk began; `open` while it may still go on."""

    side: str
    start_seconds: float
    end_seconds: float
    open: bool = False


class SpeechTurns:
    """Looks on at one talk, a resumed one included.

    Args:
        detector: tells the visitor's speech from noise; the persona's sound is clean, and its level is enough.
    """

    def __init__(self, detector: Detector | None = None) -> None:
        self._gates = {YOU: SpeechGate(detector), PERSONA: SpeechGate()}
        self._sides = {side: _Side(side) for side in SIDES}
        self._settled = TurnTaking()
        self._waiting: list[Utterance] = []

    def saw(self, index: int, heard: Pcm, spoken: Pcm) -> None:
        """The next frame; those that were there already are passed over."""
        if not self.frames <= index < MOST_FRAMES:
            return
        for name, pcm in ((YOU, heard), (PERSONA, spoken)):
            self.decided(name, index, self._gates[name].saw(pcm))

    def decided(self, name: str, index: int, decision: Decision) -> None:
        """One side's decision on a frame; each side in order of the frames."""
        side = self._sides[name]
        side.add(index, decision)
        self._waiting += side.closed
        side.closed.clear()

    @property
    def frames(self) -> int:
        """How many there were so far, dropped ones included."""
        return max(len(side.speech) for side in self._sides.values())

    def speaks(self, side: str) -> bool:
        """Whether this side speaks now, short pauses included."""
        return self._sides[side].running is not None

    def since(self, side: str) -> float | None:
        """The second at which this side began the utterance that it is in; None where it is silent."""
        running = self._sides[side].running
        return None if running is None else round(running.start * FRAME_SECONDS, 2)

    def speech(self, side: str) -> npt.NDArray[np.bool_]:
        """Each frame's decision."""
        return np.frombuffer(bytes(self._sides[side].speech), dtype=np.bool_)

    def levels_db(self, side: str) -> npt.NDArray[np.int8]:
        """Each frame's level in dBFS, -99 and below for silence."""
        return np.frombuffer(bytes(self._sides[side].levels), dtype=np.int8)

    def taking(self) -> TurnTaking:
        """What the talk has come to, running utterances as they stand included."""
        self._settle()
        found = self._settled.copy()
        for one in sorted([*self._waiting, *self._running()], key=_order):
            found.add(one)
        return found

    @property
    def turns(self) -> list[Turn]:
        """All turns of both sides, in order of their start."""
        running = {(one.side, one.end) for one in self._running()}
        return [
            Turn(one.side, _seconds(one.start), _seconds(one.end), (one.side, one.end) in running)
            for one in self.taking().turns
        ]

    def _running(self) -> list[Utterance]:
        return [side.running for side in self._sides.values() if side.running is not None]

    def _settle(self) -> None:
        """What nothing that runs can come before is added for good."""
        earliest = min((one.start for one in self._running()), default=self.frames + 1)
        ready = sorted((one for one in self._waiting if one.start < earliest), key=_order)
        self._waiting = [one for one in self._waiting if one.start >= earliest]
        for one in ready:
            self._settled.add(one)


class _Side:
    """One side's frames.

    Attributes:
        speech, levels: a byte a frame. running: the utterance that it is in, up to its latest speech. closed: those
            that are over and were not taken yet.
    """

    def __init__(self, name: str) -> None:
        self.speech, self.levels = bytearray(), bytearray()
        self.running: Utterance | None = None
        self.closed: list[Utterance] = []
        self._name = name
        self._start = self._end = self._spoken = 0

    def add(self, index: int, decision: Decision) -> None:
        """A frame's decision; frames that are missing before it were silent."""
        missing = index - len(self.speech)
        self.speech.extend(bytes(missing + 1))
        self.levels.extend([_byte(LOWEST_DB)] * missing + [_byte(decision.level_db)])
        if decision.speech:
            before = max(index - decision.before, self._end)
            self.speech[before:] = b"\1" * (index + 1 - before)
            self._speak(before, index + 1)
        elif self._spoken and index + 1 - self._end > PAUSE_FRAMES:
            self._close()

    def _speak(self, start: int, end: int) -> None:
        if self._spoken and start - self._end > PAUSE_FRAMES:
            self._close()
        if not self._spoken:
            self._start = start
        self._spoken += end - start
        self._end = end
        if self._spoken >= SHORTEST_FRAMES:
            self.running = Utterance(self._name, self._start, end)

    def _close(self) -> None:
        if self.running is not None:
            self.closed.append(self.running)
        else:
            self.speech[self._start : self._end] = bytes(self._end - self._start)
        self.running, self._spoken = None, 0


def _order(one: Utterance) -> tuple[int, str]:
    return one.start, one.side


def _byte(level_db: float) -> int:
    return round(max(LOWEST_DB, min(0.0, level_db))) & 0xFF


def _seconds(frame: int) -> float:
    return round(frame * FRAME_SECONDS, 2)
