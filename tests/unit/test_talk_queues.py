"""A talk's two queues keep the newest in order, know when a frame is wanted, and count for two threads at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

import pytest
from support.engine import frame_of

from personaplex_app.audio import FRAME_SECONDS, silence
from personaplex_app.engine.scheduler import PATIENCE_SECONDS, SlotView
from personaplex_app.engine.talk_queues import HEARD_FRAMES, SLOW_MEMORY_SECONDS, SPOKEN_FRAMES, TalkQueues
from personaplex_app.engine.talk_so_far import Counters


class Stage:
    """Queues with a clock in the hand."""

    def __init__(self, counters: Counters | None = None) -> None:
        self.now = 100.0
        self.counters = counters or Counters()
        self.queues = TalkQueues(self.counters, lambda: self.now)

    def spoken(self) -> list[tuple[int, float, float]]:
        """Of each frame that waits: its index, what was heard in it and what was spoken."""
        found = []
        while (frame := self.queues.take_spoken()) is not None:
            found.append((frame.index, float(frame.heard[0]), float(frame.pcm[0])))
        return found


class SlowCounters(Counters):
    """Lets another thread run between reading a number and writing it."""

    def __setattr__(self, name: str, value: int) -> None:
        time.sleep(0.0002)
        super().__setattr__(name, value)


def test_of_what_was_heard_the_newest_wait_in_order() -> None:
    stage = Stage()
    assert not stage.queues.hear(frame_of(1)[:100]) and stage.queues.waiting == (0, 0)
    assert stage.queues.hear(frame_of(1)[100:])
    for value in range(2, HEARD_FRAMES + 1):
        stage.queues.hear(frame_of(value))
    assert not stage.queues.slow and stage.counters.heard_dropped == 0
    stage.queues.hear(frame_of(HEARD_FRAMES + 1))
    assert stage.queues.slow and (stage.counters.heard, stage.counters.heard_dropped) == (HEARD_FRAMES + 1, 1)
    assert stage.queues.waiting == (HEARD_FRAMES, 0)
    assert [stage.queues.take_heard()[0] for _ in range(HEARD_FRAMES)] == list(range(2, HEARD_FRAMES + 2))
    stage.now += SLOW_MEMORY_SECONDS
    assert not stage.queues.slow and stage.counters.silence_filled == 0


def test_a_spoken_frame_stands_beside_what_was_heard_in_its_step() -> None:
    stage = Stage()
    stage.queues.deliver(frame_of(-1))
    for value in (2, 3):
        stage.queues.hear(frame_of(value))
    stage.queues.take_heard()
    stage.queues.deliver(frame_of(-2))
    assert stage.queues.waiting == (1, 2)
    stage.queues.take_heard()
    stage.queues.deliver(frame_of(-3))
    stage.queues.take_heard()
    stage.queues.deliver(frame_of(-4))
    assert stage.spoken() == [(0, 0, -1), (1, 2, -2), (2, 3, -3), (3, 0, -4)] and stage.counters.silence_filled == 1


def test_of_what_was_spoken_the_newest_wait_in_order() -> None:
    stage = Stage()
    for value in range(SPOKEN_FRAMES + 2):
        stage.queues.deliver(frame_of(value))
    assert [index for index, _, _ in stage.spoken()] == list(range(2, SPOKEN_FRAMES + 2))
    stage.queues.note_unsent()
    assert (stage.counters.stepped, stage.counters.spoken_dropped) == (SPOKEN_FRAMES + 2, 3)


def test_a_frame_is_wanted_since_the_last_one_came() -> None:
    stage = Stage()
    assert stage.queues.view(3) == SlotView(3, 0, 100.0)
    stage.queues.begin(107.0)
    assert stage.queues.view(3) == SlotView(3, 0, 107.0)
    stage.now = 109.0
    stage.queues.hear(frame_of(1))
    assert stage.queues.view(3) == SlotView(3, 1, 107.0), "that it waits does not feed anybody"
    stage.queues.take_heard()
    assert stage.queues.view(3) == SlotView(3, 0, 109.0)


def test_silence_is_filled_in_at_the_pace_of_time_and_a_stall_is_not_made_up_for() -> None:
    stage = Stage()
    stage.now += PATIENCE_SECONDS
    assert not stage.queues.take_heard().any()
    assert stage.queues.view(0).hungry_since == pytest.approx(100.0 + FRAME_SECONDS)
    stage.now += 60.0
    assert not stage.queues.take_heard().any()
    next_silence = stage.queues.view(0).hungry_since + PATIENCE_SECONDS
    assert next_silence == pytest.approx(stage.now + FRAME_SECONDS) and stage.counters.silence_filled == 2


def test_silence_that_came_early_puts_the_next_one_off_by_a_whole_frame() -> None:
    stage = Stage()
    stage.queues.take_heard()
    assert stage.queues.view(0).hungry_since == pytest.approx(100.0 + FRAME_SECONDS)


def test_what_was_counted_is_a_copy() -> None:
    stage = Stage()
    stage.queues.deliver(silence())
    before = stage.queues.counted()
    stage.queues.deliver(silence())
    assert (before.stepped, stage.counters.stepped) == (1, 2)


def test_what_both_threads_count_at_once_adds_up() -> None:
    stage, times = Stage(SlowCounters()), 50

    def repeated(act: Callable[[], object]) -> Thread:
        return Thread(target=lambda: [act() for _ in range(times)])

    threads = [repeated(lambda: stage.queues.deliver(silence())), repeated(stage.queues.note_unsent)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stage.counters.stepped == times and stage.counters.spoken_dropped == 2 * times - SPOKEN_FRAMES
