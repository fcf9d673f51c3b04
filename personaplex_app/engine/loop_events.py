"""What the tick loop tells others, and whom.

In: nothing. Out: plain values and calls. Must not know: who listens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TickReport:
    """One tick: how long it took, how many talks are live, and how many of them it went by without."""

    seconds: float
    talking: int
    missed: int


@dataclass(frozen=True)
class LoopEvents:
    """Whom the loop calls, from its threads; none may block.

    Attributes:
        on_fatal: once, when the engine is dead; the process should end soon after.
        on_tick: after every tick. on_parked: a talk was just parked under this grant.
    """

    on_fatal: Callable[[str], None] = lambda sentence: None
    on_tick: Callable[[TickReport], None] = lambda report: None
    on_parked: Callable[[str], None] = lambda grant: None
