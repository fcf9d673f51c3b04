"""The whole bench over an echo: every number of calls is a row, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

import pytest

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.echo import EchoStep, EchoStepper
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.ports import Stepper
from personaplex_app.errors import InvalidInput, ServerFault
from personaplex_app.evaluation import bench, bench_joins
from personaplex_app.evaluation.bench import Plan, run_bench
from personaplex_app.evaluation.bench_engine import Crowd, Seated, joined
from personaplex_app.evaluation.bench_joins import Prompts, Turnover
from personaplex_app.evaluation.bench_report import Row
from personaplex_app.evaluation.bench_talkers import UNPACED_STEPS, Talkers
from personaplex_app.voices import NO_VOICE

SHORT = Plan((1, 3), window=8, seconds=0.16, agree_frames=3)


class Breaking(EchoStepper):
    """An echo that fails in a way of its own after so many steps."""

    def __init__(self, slots: int, after: int, error: Exception | None) -> None:
        super().__init__(slots)
        self.after, self.error = after, error

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        self.after -= 1
        if self.after < 0 and self.error is not None:
            raise self.error
        return {slot: replace(one, healthy=self.after >= 0) for slot, one in super().step(heard).items()}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The bench's own lengths of time, a hundredth of a minute each."""
    monkeypatch.setattr(bench, "JOINS_SECONDS", (0.5, 15.0))
    monkeypatch.setattr(bench, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(bench_joins, "TURNOVER_SECONDS", 0.15)
    yield


def echo(calls: int) -> Stepper:
    return cast(Stepper, EchoStepper(calls))


def test_every_number_of_calls_is_a_row_with_everything_that_an_echo_shows() -> None:
    told: list[str] = []
    kept: list[Row] = []
    rows = run_bench(echo, SHORT, told.append, kept.append)
    assert kept == rows and [row.calls for row in rows] == [1, 3] and not any(row.failed for row in rows)
    alone, among = rows
    for row in rows:
        assert row.ticks is not None and row.ticks.frames == len(row.ticks.tick_ms) == len(row.ticks.host_ms) == 2
        assert row.throughput is not None and row.throughput.steps == UNPACED_STEPS
        assert row.memory.call_state_bytes == 64 and row.memory.loaded is None
        assert [len(start.new_ms) for start in row.starts] == [3, 3] == [len(start.known_ms) for start in row.starts]
        assert row.idle_cpu_seconds is not None and row.idle_cpu_seconds < 0.05
    assert alone.joins is None and alone.agreement is None
    assert among.joins is not None and among.joins.windows_kept and among.joins.joined >= 1
    assert len(among.joins.prime_ms) == among.joins.joined
    assert among.joins.quiet.frames == among.joins.joining.frames == 6
    assert among.agreement is not None and among.agreement.text_equal == among.agreement.frames == 3
    assert "1 call: loading" in told and "3 calls: comparing greedy tokens" in told


@pytest.mark.parametrize(
    ("after", "error", "sentence"),
    [
        (0, RuntimeError("CUDA out of memory. Tried to allocate 1 GiB"), "out of memory while filling the windows"),
        (9, MemoryError(), "out of memory while pacing ticks"),
        (0, None, "failed while filling the windows: The model's numbers stopped being finite in slot 0, frame 0."),
    ],
)
def test_a_number_of_calls_that_fails_is_told_in_its_row_and_the_others_go_on(
    after: int, error: Exception | None, sentence: str
) -> None:
    def build(calls: int) -> Stepper:
        return cast(Stepper, Breaking(calls, after, error)) if calls == 5 else echo(calls)

    first, second = run_bench(build, replace(SHORT, calls=(5, 1)))
    assert first.failed == sentence and first.ticks is None
    assert not second.failed and second.ticks is not None


def test_no_memory_for_the_stepper_itself_is_a_row_too() -> None:
    def build(calls: int) -> Stepper:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    rows = run_bench(build, SHORT)
    assert [row.failed for row in rows] == ["out of memory while loading"] * 2


@pytest.mark.parametrize("error", [InvalidInput("No such checkpoint."), RuntimeError("a bug"), ValueError("a bug")])
def test_what_has_nothing_to_do_with_the_number_of_calls_ends_the_bench(error: Exception) -> None:
    def build(calls: int) -> Stepper:
        raise error

    with pytest.raises(type(error), match=str(error)):
        run_bench(build, SHORT)


def test_a_fault_in_the_engine_keeps_what_was_measured_before() -> None:
    steps_before = 3 + 2 + UNPACED_STEPS  # filling, pacing, without a pause

    def build(calls: int) -> Stepper:
        return cast(Stepper, Breaking(calls, steps_before, ValueError("broken")))

    (row,) = run_bench(build, Plan((2,), window=1, seconds=0.16, agree_frames=0))
    assert row.failed.startswith("failed while joining and leaving: The engine failed in the middle of a step")
    assert row.ticks is not None and row.throughput is not None and row.joins is None


def test_a_window_beyond_the_context_is_refused() -> None:
    stepper = EchoStepper(1)
    stepper.context = 100  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="--window must be at most 100"):
        run_bench(lambda calls: cast(Stepper, stepper), replace(SHORT, calls=(1,), window=101))


def test_only_the_first_prompt_of_a_slot_is_left_out() -> None:
    stepper = EchoStepper(2)
    seated = Seated(cast(Stepper, stepper))
    choices = Choices("", NO_VOICE, SamplingSettings(), 5)
    seated.prime(1, choices)
    assert 1 not in stepper.counts and seated.filled == {0} and seated.slots == 2
    seated.prime(1, choices)
    assert stepper.counts == {1: 5}


def test_newcomers_take_turns_and_the_first_call_stays() -> None:
    talkers = Talkers(echo(3), SamplingSettings())
    talkers.begin()
    crowd = Crowd(talkers)
    with crowd.engine:
        crowd.begin()
        before = list(crowd.sessions)
        with Turnover(crowd, Prompts(talkers.stepper, SamplingSettings(), 10)) as turnover:
            answers = crowd.feed(0.8)
        assert crowd.sessions[0] is before[0] and len(crowd.sessions) == 3 and turnover.prime_ms
        assert before[1] not in crowd.sessions
        assert len(answers.answer_ms) + len(answers.missed) >= answers.frames == 10
        crowd.empty()
        assert crowd.engine.status.free == 3


def test_what_goes_wrong_among_newcomers_is_raised() -> None:
    talkers = Talkers(echo(2), SamplingSettings())
    talkers.begin()
    crowd = Crowd(talkers)
    prompts = Prompts(talkers.stepper, SamplingSettings(), 10)
    prompts.another = lambda: Choices("", "NOBODY", SamplingSettings(), 0)  # type: ignore[method-assign]
    with crowd.engine:
        crowd.begin()
        with pytest.raises(InvalidInput, match="no voices"), Turnover(crowd, prompts):
            crowd.feed(0.4)


def test_a_call_that_cannot_begin_says_why() -> None:
    class Refusing(EchoStepper):
        def prime(self, slot: int, opening: Choices) -> None:
            raise ValueError("broken")

    with (
        Engine(cast(Stepper, Refusing(1))) as engine,
        pytest.raises(ServerFault, match="failed while it read the prompt"),
    ):
        joined(engine, Choices("", NO_VOICE, SamplingSettings(), 0))
