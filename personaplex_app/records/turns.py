"""Turns: what one side of a talk said in one go, with the seconds at which it began and ended. Pure.

In: the persona's letters at their frames; for the visitor, whom nobody writes down, each frame's yes or no. Out: turns,
numbered for each side from 0. A turn ends with a pause of about a second, never within a word: between spoken words
there are often 2 to 4 frames of padding, between the sentences of one answer 7 or 8 (measured on the trained miniature,
whose answers lie 50 and more apart). One of about a minute ends without a pause, so that no turn grows with the talk.
Must not know: tokens, sound, who is told, the web.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.records.turn_taking import PERSONA, SHORTEST_FRAMES, YOU

PAUSE_FRAMES = 13  # 1.04 s: longer than a breath between two sentences, shorter than waiting for an answer
WORD_FRAMES = 38  # 3 s: letters that come so late are no rest of a word any more
MOST_LETTERS = 1000  # about a minute; the next word begins another turn, and twice as many letters without one do
MOST_BACK_FRAMES = 6  # that may turn out to be speech afterwards


@dataclass(frozen=True)
class Turn:
    """One turn; `who` is `persona` or `you`.

    Attributes:
        text: so far; empty for the visitor. start_seconds, end_seconds: since the talk began; the end is that of the
            last frame with letters or speech, None while the turn goes on.
    """

    who: str
    number: int
    text: str
    start_seconds: float
    end_seconds: float | None


class Marks(Protocol):
    """A yes or no for each frame."""

    def __len__(self) -> int: ...

    def __getitem__(self, frame: int, /) -> Any: ...


class Side(Protocol):
    """One side's turns; only the last may still change."""

    def __len__(self) -> int: ...

    def turn(self, number: int, frames: int, over: bool = False) -> Turn | None:
        """One turn, after so many frames of the talk; None where there is nothing to show of it yet.

        Args:
            over: there will be no more.
        """


@dataclass
class _Saying:
    first_frame: int
    last_frame: int
    text: str = ""
    speech_frames: int = 1


class _Sayings:
    """What both sides have in common."""

    who = ""

    def __init__(self) -> None:
        self._all: list[_Saying] = []

    def __len__(self) -> int:
        return len(self._all)

    def turn(self, number: int, frames: int, over: bool = False) -> Turn | None:
        """See `Side.turn`."""
        saying = self._all[number]
        if not self._shown(saying):
            return None
        ended = over or number < len(self._all) - 1 or frames - saying.last_frame - 1 >= PAUSE_FRAMES
        end = seconds_at(saying.last_frame + 1) if ended else None
        return Turn(self.who, number, saying.text.strip(), seconds_at(saying.first_frame), end)

    def turns(self, frames: int, over: bool = False) -> list[Turn]:
        """All so far."""
        found = (self.turn(number, frames, over) for number in range(len(self._all)))
        return [turn for turn in found if turn is not None]

    def _shown(self, saying: _Saying) -> bool:
        return True

    def _pause_before(self, frame: int) -> int:
        """Frames without anything since the last turn; without end where there was none."""
        return frame - self._all[-1].last_frame - 1 if self._all else WORD_FRAMES


class PersonaTurns(_Sayings):
    """Collects what the persona says; one thread adds, others may read meanwhile."""

    who = PERSONA

    def add(self, letters: str, frame: int, begins_word: bool) -> None:
        """Letters that became whole in a frame with text, perhaps none yet."""
        if self._begins_turn(frame, begins_word):
            self._all.append(_Saying(frame, frame))
        turn = self._all[-1]
        turn.text += letters
        turn.last_frame = frame

    def _begins_turn(self, frame: int, begins_word: bool) -> bool:
        if self._pause_before(frame) >= (PAUSE_FRAMES if begins_word else WORD_FRAMES):
            return True
        return len(self._all[-1].text) >= MOST_LETTERS * (1 if begins_word else 2)

    def _shown(self, saying: _Saying) -> bool:
        return bool(saying.text.strip())


class VisitorTurns(_Sayings):
    """Collects when the visitor spoke; a click is no turn."""

    who = YOU

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0

    def follow(self, speech: Marks) -> None:
        """Each frame's decision from the talk's beginning on; the last few may differ from what they were."""
        for frame in range(max(0, self._seen - MOST_BACK_FRAMES), len(speech)):
            if speech[frame] and (not self._all or frame > self._all[-1].last_frame):
                self._spoke(frame)
        self._seen = len(speech)

    def _spoke(self, frame: int) -> None:
        if self._all and self._pause_before(frame) < PAUSE_FRAMES:
            self._all[-1].last_frame = frame
            self._all[-1].speech_frames += 1
            return
        if self._all and not self._shown(self._all[-1]):
            self._all.pop()
        self._all.append(_Saying(frame, frame))

    def _shown(self, saying: _Saying) -> bool:
        return saying.speech_frames >= SHORTEST_FRAMES


class News:
    """What changed in a talk's turns since it was asked last."""

    def __init__(self) -> None:
        self._visitor = VisitorTurns()
        self._told = {PERSONA: SideNews(), YOU: SideNews()}

    def of(self, persona: PersonaTurns, speech: Marks, frames: int, over: bool = False) -> list[Turn]:
        """Turns that are new or different, each side's in order.

        Args:
            speech: whether the visitor spoke, for each frame from the talk's beginning on. frames: of the talk so far.
            over: there will be no more.
        """
        self._visitor.follow(speech)
        return self._told[PERSONA].of(persona, frames, over) + self._told[YOU].of(self._visitor, frames, over)


class SideNews:
    """The same of one side."""

    def __init__(self) -> None:
        self._told: list[Turn | None] = []

    def of(self, side: Side, frames: int, over: bool = False) -> list[Turn]:
        """Turns that are new or different, in order."""
        fresh = []
        for number in range(max(0, len(self._told) - 1), len(side)):
            turn = side.turn(number, frames, over)
            if number == len(self._told):
                self._told.append(None)
            if turn is not None and turn != self._told[number]:
                self._told[number] = turn
                fresh.append(turn)
        return fresh


def seconds_at(frame: int) -> float:
    """When a frame begins, in seconds since the talk began."""
    return round(frame * FRAME_SECONDS, 3)
