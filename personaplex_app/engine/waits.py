"""How long a line will take, from how long talks last here. Pure.

Must not know: tickets, clocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

FIRST_GUESS_SECONDS = 180.0
REMEMBERED = 20
LEAST_LEFT_SECONDS = 5.0


class TalkLengths:
    """The last talks' lengths; before there are any, a first guess counts as one."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._lengths: deque[float] = deque([FIRST_GUESS_SECONDS], maxlen=REMEMBERED)

    def note(self, seconds: float) -> None:
        """One talk that is over."""
        self._lengths.append(seconds)

    @property
    def mean_seconds(self) -> float:
        return sum(self._lengths) / len(self._lengths)

    def wait_seconds(self, place: int, lasted_seconds: Sequence[float]) -> float:
        """For a place in the line (1 is first), given how long each present talk has lasted."""
        if place < 1:
            return 0.0
        mean = self.mean_seconds
        left = sorted(max(mean - lasted, LEAST_LEFT_SECONDS) for lasted in lasted_seconds)
        left = [0.0] * (self._slots - len(left)) + left
        rounds, index = divmod(place - 1, self._slots)
        return left[index] + rounds * mean
