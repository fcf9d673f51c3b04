"""The bench: for each number of calls a stepper of its own, measured from loading to idling; a failure is a row too.

In: a way to build a stepper for N calls, a plan. Out: rows, each kept as soon as it is there.
Must not know: flags, files, how figures are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.ports import Stepper
from personaplex_app.errors import InvalidInput, NoCapacity, ServerFault
from personaplex_app.evaluation.bench_engine import Crowd
from personaplex_app.evaluation.bench_joins import (
    IDLE_SECONDS,
    LONG_POSITIONS,
    SHORT_POSITIONS,
    Prompts,
    measure_idle,
    measure_joins,
    measure_start,
)
from personaplex_app.evaluation.bench_memory import (
    forget_peaks,
    give_back_memory,
    gpu_memory,
    host_bytes,
    is_out_of_memory,
)
from personaplex_app.evaluation.bench_report import Row
from personaplex_app.evaluation.bench_schedule import frames_in
from personaplex_app.evaluation.bench_talkers import Talkers

JOINS_SECONDS = (2.0, 15.0)  # at least and at most, once with nobody coming and once with somebody
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes:
        window: positions before ticks are paced; None for a full window. seconds: of paced ticks.
        fill: `steps`: every window by real steps; `copy`: one, then copied; `noise`: a random past of that length, at
            once, which costs a step the same. agree_frames: how many greedy frames to compare; 0 for none.
    """

    calls: tuple[int, ...]
    window: int | None = None
    seconds: float = 30.0
    fill: str = "steps"
    agree_frames: int = 40


def run_bench(
    build: Callable[[int], Stepper],
    plan: Plan,
    say: Say = lambda line: None,
    keep: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Measures every number of calls; raises InvalidInput where the first stepper cannot be built as asked.

    Args:
        say: takes a line about what is being done. keep: takes each row once it is complete.
    """
    rows = []
    for calls in plan.calls:
        row = _measured(build, calls, plan, say)
        give_back_memory()
        rows.append(row)
        keep(row)
    return rows


def _measured(build: Callable[[int], Stepper], calls: int, plan: Plan, say: Say) -> Row:
    """A row, whole or up to where it failed; nothing of the failure's frames stays in memory."""
    row, doing = Row(calls), ["loading"]

    def tell(what: str) -> None:
        doing[0] = what.split(",")[0]
        say(f"{calls} {'call' if calls == 1 else 'calls'}: {what}")

    try:
        _measure(build, row, plan, tell)
    except (ServerFault, NoCapacity) as fault:
        row.failed = f"failed while {doing[0]}: {fault.sentence}"
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        row.failed = f"out of memory while {doing[0]}"
    if row.failed:
        tell(row.failed)
    return row


def _measure(build: Callable[[int], Stepper], row: Row, plan: Plan, tell: Say) -> None:
    tell("loading")
    forget_peaks()
    began = time.perf_counter()
    stepper = build(row.calls)
    row.load_seconds = time.perf_counter() - began
    row.memory.loaded = gpu_memory()
    forget_peaks()
    sampling = SamplingSettings()
    talkers = Talkers(stepper, sampling)
    row.memory.weights_bytes = talkers.probe.weights_bytes()
    _measure_ticks(talkers, row, plan, tell)
    _measure_engine(talkers, row, plan, tell)
    row.memory.ended = gpu_memory()
    row.memory.host_bytes = host_bytes()


def _measure_ticks(talkers: Talkers, row: Row, plan: Plan, tell: Say) -> None:
    window = _window(talkers, plan)
    tell("filling the windows")
    began = time.perf_counter()
    talkers.begin()
    talkers.fill(window, plan.fill, tell)
    row.fill_seconds = time.perf_counter() - began
    if plan.fill != "steps":
        give_back_memory()  # what making and copying a past took is no call's
    row.memory.windows_full = gpu_memory()
    tell(f"pacing ticks, {plan.seconds:g} s")
    row.ticks = talkers.paced(frames_in(plan.seconds))
    tell("stepping without a pause")
    row.throughput = talkers.unpaced()
    row.memory.paced = gpu_memory()
    row.memory.call_state_bytes = talkers.state_bytes()
    if row.calls > 1 and plan.agree_frames:
        tell("comparing greedy tokens")
        row.agreement = talkers.agreement(plan.agree_frames)


def _window(talkers: Talkers, plan: Plan) -> int:
    context = talkers.probe.context
    if plan.window is None:
        return context or 0
    if context is not None and plan.window > context:
        raise InvalidInput(f"--window must be at most {context} for this checkpoint, not {plan.window}.")
    return plan.window


def _measure_engine(talkers: Talkers, row: Row, plan: Plan, tell: Say) -> None:
    prompts = [Prompts(talkers.stepper, talkers.sampling, positions) for positions in (SHORT_POSITIONS, LONG_POSITIONS)]
    crowd = Crowd(talkers)
    with crowd.engine:
        crowd.begin()
        if row.calls > 1:
            seconds = min(max(JOINS_SECONDS[0], plan.seconds / 2), JOINS_SECONDS[1])
            tell(f"joining and leaving, {2 * seconds:g} s")
            row.joins = measure_joins(crowd, seconds, prompts[-1])
        crowd.empty()
        tell("idling")
        row.idle_seconds, row.idle_cpu_seconds = IDLE_SECONDS, measure_idle(IDLE_SECONDS)
        tell("starting talks")
        row.starts = [measure_start(crowd.engine, one, talkers.probe.settle) for one in prompts]
