"""The bench's arithmetic: percentiles, misses in a row, and whether ticks meet the line that we promise. Pure.

In: milliseconds and indices of missed frames. Out: figures. Must not know: steppers, clocks, files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """How a set of durations is spread, milliseconds."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class TickLine:
    """What paced ticks must keep to: two percentiles, a share of missed frames, and never two misses in a row."""

    p50_ms: float = 40.0
    p99_ms: float = 64.0
    miss_share: float = 0.001

    def met_by(self, tick_ms: Sequence[float], missed: Sequence[int], frames: int) -> bool:
        """Whether these ticks keep to it; no ticks at all do not."""
        spread = spread_of(tick_ms)
        if spread is None or spread.p50_ms > self.p50_ms or spread.p99_ms > self.p99_ms:
            return False
        return len(missed) <= self.miss_share * frames and longest_run(missed) < 2


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values do not exceed; raises ValueError for none."""
    if not values:
        raise ValueError("there is no percentile of nothing")
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, {share} does not")
    rank = math.ceil(share * len(values) - 1e-9)  # 0.9 * 10 must stay rank 9
    return sorted(values)[max(rank, 1) - 1]


def spread_of(values_ms: Sequence[float]) -> Spread | None:
    """The percentiles that the bench shows; None for no values."""
    if not values_ms:
        return None
    return Spread(*(percentile(values_ms, share) for share in (0.5, 0.9, 0.99, 1.0)))


def longest_run(indices: Sequence[int]) -> int:
    """How many of these indices follow one another at most; 0 for none."""
    longest, run, before = 0, 0, None
    for index in sorted(set(indices)):
        run = run + 1 if before is not None and index == before + 1 else 1
        longest, before = max(longest, run), index
    return longest
