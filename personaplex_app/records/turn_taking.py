"""Who takes turns with whom: utterances become turns, backchannels and interruptions. Pure.

Definitions, in the field's terms; all times are the server's, where what is heard in a step stands beside what is
spoken in it:

- *utterance*: one side's speech, pauses of less than 0.5 s included.
- *backchannel*: an utterance of less than 1 s that begins while the other speaks, who goes on for at least a second
  from there ("mm-hm"). It does not take the floor and is part of no turn.
- *turn*: utterances of one side, with no turn of the other's that outlasts them between, and no silence of 2 s.
- *floor transfer*: a turn that follows the other side's and outlasts it. Its *offset* goes from the end of that turn to
  the beginning of this one: a positive one is a gap, a negative one an overlap.
- *interruption*: an utterance, no backchannel, that begins while the other speaks and overlaps by at least 0.24 s; less
  is how people take turns. Who falls silent first has *yielded*; who was interrupted, where both do at once.

In: utterances in frames, in order of their start. Out: turns and interruptions in frames. Must not know: sound, who is
told.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

YOU: Final = "you"
PERSONA: Final = "persona"
SIDES: Final = (YOU, PERSONA)
OTHER: Final = {YOU: PERSONA, PERSONA: YOU}

PAUSE_FRAMES = 6  # 0.48 s at most within an utterance
SHORTEST_FRAMES = 2  # of speech; less is a click
BACKCHANNEL_FRAMES = 12  # 0.96 s at most
GOES_ON_FRAMES = 13  # 1.04 s at least
TURN_PAUSE_FRAMES = 25  # 2 s are too much
OVERLAP_FRAMES = 3  # 0.24 s at least


@dataclass(frozen=True)
class Utterance:
    """Of one side, from its first frame to the one after its last."""

    side: str
    start: int
    end: int


@dataclass(frozen=True)
class Transfer:
    """A side took the floor, so many frames after the other's turn had ended; before it where negative."""

    to: str
    frame: int
    offset: int


@dataclass(frozen=True)
class Interruption:
    """`by` began at a frame while the other spoke; `yielded`: who fell silent first."""

    by: str
    frame: int
    yielded: str


class TurnTaking:
    """What a talk's utterances come to.

    Attributes:
        turns, backchannels: as utterances. All lists are in order of time.
    """

    def __init__(self) -> None:
        self.turns: list[Utterance] = []
        self.backchannels: list[Utterance] = []
        self.interruptions: list[Interruption] = []
        self.transfers: list[Transfer] = []
        self._latest: dict[str, Utterance] = {}
        self._floor = -1  # which turn has ended last

    def copy(self) -> TurnTaking:
        """Another one that goes on from here."""
        other = TurnTaking()
        other.turns, other.backchannels = self.turns[:], self.backchannels[:]
        other.interruptions, other.transfers = self.interruptions[:], self.transfers[:]
        other._latest, other._floor = dict(self._latest), self._floor
        return other

    def add(self, one: Utterance) -> None:
        """The next utterance; none that began earlier may follow."""
        other = self._latest.get(OTHER[one.side])
        self._latest[one.side] = one
        if other is not None and other.start < one.start < other.end:
            if _is_backchannel(one, other):
                self.backchannels.append(one)
                return
            if min(one.end, other.end) - one.start >= OVERLAP_FRAMES:
                yielded = one.side if one.end < other.end else other.side
                self.interruptions.append(Interruption(one.side, one.start, yielded))
        self._take_turn(one)

    def _take_turn(self, one: Utterance) -> None:
        before = self.turns[self._floor] if self.turns else None
        if before is not None and before.side == one.side and one.start - before.end < TURN_PAUSE_FRAMES:
            self.turns[self._floor] = replace(before, end=one.end)
            return
        self.turns.append(one)
        if before is not None and one.end <= before.end:
            return
        if before is not None and before.side != one.side and before.start < one.start:
            self.transfers.append(Transfer(one.side, one.start, one.start - before.end))
        self._floor = len(self.turns) - 1


def _is_backchannel(one: Utterance, other: Utterance) -> bool:
    return one.end - one.start <= BACKCHANNEL_FRAMES and other.end - one.start >= GOES_ON_FRAMES
