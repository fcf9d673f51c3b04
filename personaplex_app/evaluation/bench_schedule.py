"""Ticks on an absolute schedule: frame k is due at start + 80 ms * k, however late the ticks before it were. Pure.

In: what to do for a frame, a clock, a way to wait. Out: how long each took and which frames were missed.
Must not know: steppers, engines, threads.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from personaplex_app.audio import FRAME_SECONDS

Clock = Callable[[], float]
Wait = Callable[[float], None]
QUEUE_FRAMES = 3


@dataclass(frozen=True)
class PacedRun:
    """What a paced run gave.

    Attributes:
        frames: how many were due. begun: index and seconds on the clock of every tick that ran.
        tick_ms: how long those took. missed: frames that were not done when the next one was due, or never begun.
    """

    frames: int
    begun: list[tuple[int, float]]
    tick_ms: list[float]
    missed: list[int]


def frames_in(seconds: float) -> int:
    """How many frames are due in so many seconds, one at least."""
    return max(1, round(seconds / FRAME_SECONDS))


def run_paced(
    tick: Callable[[int], None],
    frames: int,
    clock: Clock = time.perf_counter,
    wait: Wait = time.sleep,
    between: Callable[[], None] = lambda: None,
) -> PacedRun:
    """Runs `tick(index)` when each frame is due; frames whose whole time went by meanwhile are missed, not made up for.

    Args:
        between: called after every tick, outside its time.
    """
    begun: list[tuple[int, float]] = []
    tick_ms: list[float] = []
    missed: list[int] = []
    start = clock()
    index = 0
    while index < frames:
        due = start + index * FRAME_SECONDS
        _wait_until(due, clock, wait)
        began = clock()
        tick(index)
        ended = clock()
        begun.append((index, began))
        tick_ms.append(1000 * (ended - began))
        if ended > due + FRAME_SECONDS:
            missed.append(index)
        between()
        following = max(index + 1, int((clock() - start) / FRAME_SECONDS))
        missed.extend(range(index + 1, min(following, frames)))
        index = following
    return PacedRun(frames, begun, tick_ms, missed)


def _wait_until(due: float, clock: Clock, wait: Wait) -> None:
    left = due - clock()
    if left > 0:
        wait(left)


@dataclass(frozen=True)
class AnswerTimes:
    """From the moment a frame was there to the end of the tick that answered it, and the frames that came too late."""

    answer_ms: list[float]
    missed: list[int]


def answer_times(heard_at: Sequence[float], ticks: Sequence[tuple[float, float]]) -> AnswerTimes:
    """Matches frames with the ticks of an engine that keeps 3 of them and drops the oldest.

    Args:
        heard_at: seconds at which each frame was handed over. ticks: (begin, end) seconds, in order.
    """
    answered: dict[int, float] = {}
    queue: deque[int] = deque(maxlen=QUEUE_FRAMES)
    following = 0
    for begin, end in ticks:
        while following < len(heard_at) and heard_at[following] <= begin:
            queue.append(following)
            following += 1
        if queue:  # a tick without a frame ran on silence
            index = queue.popleft()
            answered[index] = end - heard_at[index]
    missed = [index for index in range(len(heard_at)) if answered.get(index, FRAME_SECONDS + 1) > FRAME_SECONDS]
    return AnswerTimes([1000 * answered[index] for index in sorted(answered)], missed)
