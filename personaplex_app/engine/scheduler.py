"""When to tick, and for whom: values in, values out. Pure.

A tick runs at once when every live slot has a frame; else a frame's time after the last tick, for those that have one.
A slot whose frames fail to come rests for a moment, then hears silence at the pace of time: the persona goes on.
Must not know: threads, queues, steppers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from personaplex_app.audio import FRAME_SECONDS

PATIENCE_SECONDS = 3 * FRAME_SECONDS


@dataclass(frozen=True)
class SlotView:
    """What the scheduler sees of a live slot: frames that wait, and since when it would have wanted one."""

    slot: int
    waiting_frames: int
    hungry_since: float


@dataclass(frozen=True)
class TickPlan:
    """Which slots step with a heard frame, which with silence, and otherwise how long to wait (None: for an event)."""

    heard: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    wait_seconds: float | None = None

    @property
    def ready(self) -> bool:
        return bool(self.heard or self.silent)


def plan_tick(now: float, last_tick: float, slots: Iterable[SlotView]) -> TickPlan:
    """Decides for the live slots at time `now` (seconds on a steady clock)."""
    views = list(slots)
    if not views:
        return TickPlan()
    heard = tuple(view.slot for view in views if view.waiting_frames)
    silent = tuple(
        view.slot for view in views if not view.waiting_frames and now - view.hungry_since >= PATIENCE_SECONDS
    )
    if len(heard) + len(silent) == len(views):
        return TickPlan(heard, silent)
    due = last_tick + FRAME_SECONDS
    if heard or silent:
        return TickPlan(heard, silent) if now >= due else TickPlan(wait_seconds=due - now)
    patience_ends = min(view.hungry_since for view in views) + PATIENCE_SECONDS
    return TickPlan(wait_seconds=max(patience_ends - now, 0.0))
