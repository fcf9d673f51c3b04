"""The schedule of paced ticks, on a clock that moves only when it is told to."""

from __future__ import annotations

import pytest

from personaplex_app.evaluation.bench_schedule import PacedRun, answer_times, frames_in, run_paced

FRAME = 0.08


class World:
    """A clock, a wait that oversleeps by a little, and ticks that take as long as a list says."""

    def __init__(self, took: list[float], oversleeps: float = 0.0, between: float = 0.0) -> None:
        self.now = 100.0
        self.took, self.oversleeps, self.pause = took, oversleeps, between
        self.began: list[float] = []

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds + self.oversleeps

    def tick(self, index: int) -> None:
        self.began.append(self.now - 100.0)
        self.now += self.took[index]

    def between(self) -> None:
        self.now += self.pause

    def run(self, frames: int | None = None) -> PacedRun:
        return run_paced(self.tick, frames or len(self.took), self.clock, self.wait, self.between)


def test_ticks_begin_when_they_are_due() -> None:
    world = World([0.01, 0.07, 0.02])
    run = world.run()
    assert world.began == pytest.approx([0, FRAME, 2 * FRAME])
    assert run.tick_ms == pytest.approx([10, 70, 20]) and run.missed == [] and run.frames == 3


def test_a_thousand_late_wakings_do_not_add_up() -> None:
    world = World([0.03] * 1000, oversleeps=0.002)
    run = world.run()
    assert world.began[-1] == pytest.approx(999 * FRAME + 0.002)
    assert run.tick_ms == pytest.approx([30] * 1000) and run.missed == []


def test_a_late_tick_is_a_miss_and_the_next_one_catches_up() -> None:
    world = World([0.01, 0.11, 0.02, 0.01])
    run = world.run()
    assert world.began == pytest.approx([0, 0.08, 0.19, 0.24])
    assert run.missed == [1]


def test_a_stall_misses_what_went_by_and_keeps_the_schedule() -> None:
    world = World([0.25, 9, 9, 0.01, 0.01])
    run = world.run()
    assert run.missed == [0, 1, 2]
    assert world.began == pytest.approx([0, 0.25, 0.32])
    assert [index for index, _ in run.begun] == [0, 3, 4]


def test_a_stall_at_the_end_misses_no_more_than_was_due() -> None:
    run = World([0.01, 5.0, 0, 0]).run()
    assert run.missed == [1, 2, 3] and run.frames == 4


def test_steps_that_are_always_too_slow_miss_what_they_cannot_do() -> None:
    run = World([0.17] * 50).run()
    assert 50 * FRAME / 0.17 <= len(run.begun) <= 25 and run.missed == list(range(50))


def test_what_happens_between_ticks_is_not_in_their_time() -> None:
    run = World([0.01] * 5, between=0.03).run()
    assert run.tick_ms == pytest.approx([10] * 5) and run.missed == []


@pytest.mark.parametrize(("seconds", "frames"), [(0.001, 1), (1, 12), (60, 750), (0.08, 1)])
def test_frames_in_a_time(seconds: float, frames: int) -> None:
    assert frames_in(seconds) == frames


HEARD = [index * FRAME for index in range(6)]


def test_an_answer_is_counted_from_the_moment_its_frame_was_there() -> None:
    ticks = [(at + 0.001, at + 0.031) for at in HEARD]
    found = answer_times(HEARD, ticks)
    assert found.answer_ms == pytest.approx([31] * 6) and found.missed == []


def test_a_prompt_that_holds_the_ticks_up_shows_in_the_answers() -> None:
    ticks = [(0.001, 0.02), (0.17, 0.19), (0.19, 0.21), (0.241, 0.26), (0.321, 0.34), (0.401, 0.42)]
    found = answer_times(HEARD, ticks)
    assert found.answer_ms == pytest.approx([20, 110, 50, 20, 20, 20]) and found.missed == [1]


def test_frames_that_the_engine_drops_are_missed_and_silent_ticks_answer_nothing() -> None:
    ticks = [(-0.3, -0.2), (0.401, 0.41), (0.42, 0.43), (0.44, 0.45), (0.7, 0.71)]
    found = answer_times(HEARD, ticks)
    assert found.missed == [0, 1, 2, 3, 4]
    assert found.answer_ms == pytest.approx([170, 110, 50])
