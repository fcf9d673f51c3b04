"""When a piece of work fits between two ticks, so that those who talk do not notice. Pure but for the clock.

In: when the last tick was, whether anybody talks, how long pieces took. Out: yes or no. Must not know: what is done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from personaplex_app.audio import FRAME_SECONDS

MARGIN = 1.2  # a piece may take so much longer than the longest of late
FORGET = 0.9  # how much of the longest piece is remembered after another
MOST_DEFERRED_SECONDS = 4 * FRAME_SECONDS  # then a piece is done although it does not fit


class Pace:
    """Of one kind of work.

    Args:
        clock: seconds, steady. most_deferred_seconds: how long a piece is put off because it does not fit.
    """

    def __init__(self, clock: Callable[[], float], most_deferred_seconds: float = MOST_DEFERRED_SECONDS) -> None:
        self._clock = clock
        self._most_deferred = most_deferred_seconds
        self._piece_seconds = 0.0
        self._deferred_since: float | None = None

    def fits(self, last_tick: float, anybody_talks: bool) -> bool:
        """Whether a piece fits before the next tick is due; when it did not for too long it has to."""
        now = self._clock()
        left = last_tick + FRAME_SECONDS - now
        nobody_waits = not anybody_talks or left < -FRAME_SECONDS  # or nothing has come to tick for
        if nobody_waits or left > MARGIN * self._piece_seconds:
            self._deferred_since = None
            return True
        if self._deferred_since is None:
            self._deferred_since = now
        return now - self._deferred_since >= self._most_deferred

    @contextlib.contextmanager
    def piece(self) -> Iterator[None]:
        """Inside, one piece is done."""
        self._deferred_since = None
        began = self._clock()
        try:
            yield
        finally:
            self._piece_seconds = max(FORGET * self._piece_seconds, self._clock() - began)
