"""An absolute schedule: piece after piece at the pace of time, so that lateness never adds up.

In: a step and a clock. Out: when the next piece is due, and how late we were. Must not know: sound.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PIECE_SECONDS = 0.02
PIECE_SAMPLES = 480
LOST_SECONDS = 1.0


class Pace:
    """Piece k is due at `start + k * step`, whatever happened to those before it.

    Attributes:
        late: how many pieces were more than one step late. worst_seconds: the latest of all.
    """

    def __init__(
        self,
        step_seconds: float = PIECE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        start: float | None = None,
    ) -> None:
        self.step_seconds = step_seconds
        self._clock = clock
        self.start = clock() if start is None else start
        self.pieces = 0
        self.late = 0
        self.worst_seconds = 0.0

    @property
    def due(self) -> float:
        """When the next piece is due."""
        return self.start + self.pieces * self.step_seconds

    def take(self) -> float:
        """Counts the next piece as sent now; returns how late it is, in seconds."""
        late = max(0.0, self._clock() - self.due)
        self.pieces += 1
        self.worst_seconds = max(self.worst_seconds, late)
        self.late += late > self.step_seconds
        return late

    def resume(self) -> None:
        """After a pause of the caller's own: what was due more than a second ago is not made up for."""
        if self._clock() - self.due > LOST_SECONDS:
            self.start, self.pieces = self._clock(), 0

    async def wait(self) -> float:
        """Sleeps until the next piece is due and takes it."""
        await asyncio.sleep(max(0.0, self.due - self._clock()))
        return self.take()
