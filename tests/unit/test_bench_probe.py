"""The bench's look into a stepper: parts by the clock and by GPU marks, and nothing where nothing is shown."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from personaplex_app.engine.echo import EchoStepper
from personaplex_app.engine.ports import Stepper
from personaplex_app.evaluation.bench_probe import THREAD_CPU, UNTIL_ENQUEUED, Probe, Stopwatch


class Gpu:
    """A host clock and a GPU that works through what it was given, in order, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 50.0
        self.free_at = 0.0
        self.waited_for = 0

    def clock(self) -> float:
        return self.now

    def launch(self, host_seconds: float, gpu_seconds: float) -> None:
        """The host needs so long to hand over work that takes the GPU so long."""
        self.now += host_seconds
        self.free_at = max(self.free_at, self.now) + gpu_seconds

    def wait(self) -> None:
        self.now = max(self.now, self.free_at)

    def event(self) -> Any:
        gpu, at = self, max(self.now, self.free_at)

        class Event:
            def __init__(self) -> None:
                self.at = at

            def elapsed_time(self, other: Any) -> float:
                return float(1000 * (other.at - self.at))

            def synchronize(self) -> None:
                gpu.waited_for += 1

        return Event()


def _tick(watch: Stopwatch, calls: list[Callable[[], Any]], wait: Callable[[], None] = lambda: None) -> None:
    watch.begin()
    for call in calls:
        call()
    wait()
    watch.end()
    watch.collect()


def test_on_a_gpu_parts_are_its_own_time_and_the_host_does_not_count_waiting() -> None:
    gpu = Gpu()
    watch = Stopwatch(gpu.event, gpu.clock)
    parts = {"codec_in": 0.002, "language": 0.020, "codec_out": 0.003}
    calls = [watch.watched(part, lambda took=took: gpu.launch(0.0005, took)) for part, took in parts.items()]

    def wait_and_deliver() -> None:
        gpu.wait()
        gpu.now += 0.0004

    _tick(watch, calls, wait_and_deliver)
    assert watch.parts_ms == {
        "codec_in": [pytest.approx(2.5)],  # its launch included: the GPU stood still for so long
        "language": [pytest.approx(20.0)],
        "codec_out": [pytest.approx(3.0)],
    }
    assert watch.host_ms == [pytest.approx(3 * 0.5 + 0.4)]
    assert watch.host_is == UNTIL_ENQUEUED and gpu.waited_for == 1


def test_a_gpu_that_waits_for_the_host_leaves_nothing_to_wait_for() -> None:
    gpu = Gpu()
    watch = Stopwatch(gpu.event, gpu.clock)
    calls = [watch.watched(part, lambda: gpu.launch(0.01, 0.0)) for part in ("codec_in", "language", "codec_out")]
    _tick(watch, calls, gpu.wait)
    assert watch.host_ms == [pytest.approx(30)]
    assert sum(values[0] for values in watch.parts_ms.values()) == pytest.approx(30)


def test_on_a_cpu_parts_are_told_by_the_clock_and_the_host_by_the_thread() -> None:
    gpu = Gpu()
    watch = Stopwatch(None, gpu.clock)
    step = watch.watched("language", lambda: gpu.launch(0.01, 0.0))
    _tick(watch, [step, step])
    assert watch.parts_ms == {"language": [pytest.approx(20)]}
    assert watch.host_is == THREAD_CPU and 0 <= watch.host_ms[0] < 1000


def test_a_part_that_not_every_tick_shows_is_not_told() -> None:
    watch = Stopwatch()
    step = watch.watched("language", lambda: None)
    _tick(watch, [step])
    _tick(watch, [])
    assert watch.parts_ms == {} and len(watch.host_ms) == 2


def test_a_gpu_step_of_one_piece_has_no_parts_and_the_thread_s_time() -> None:
    watch = Stopwatch(Gpu().event)
    _tick(watch, [])
    assert watch.parts_ms == {} and watch.host_is == THREAD_CPU


class Codec:
    """Something with parts to look at."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.decode = lambda codes: codes + 1

    def encode(self, frames: int) -> int:
        return 2 * frames


def _parts_stepper() -> Any:
    return SimpleNamespace(codec=Codec(), language=SimpleNamespace(__slots__=()), context=3000)


def test_what_is_timed_still_does_its_work_and_is_let_go_afterwards() -> None:
    stepper = _parts_stepper()
    own = stepper.codec.decode
    with Probe(stepper).timing() as watch:
        watch.begin()
        assert stepper.codec.decode(stepper.codec.encode(3)) == 7
        watch.end()
        watch.collect()
    assert set(watch.parts_ms) == {"codec_in", "codec_out"}
    assert stepper.codec.decode is own and "encode" not in vars(stepper.codec)


def test_a_part_that_fails_is_let_go_too() -> None:
    stepper = _parts_stepper()
    with pytest.raises(TypeError), Probe(stepper).timing():
        stepper.codec.encode(None)
    assert "encode" not in vars(stepper.codec)


def test_a_stepper_that_shows_nothing_is_measured_all_the_same() -> None:
    probe = Probe(cast(Stepper, EchoStepper(1)))
    with probe.timing() as watch:
        _tick(watch, [])
    assert (probe.context, probe.weights_bytes(), probe.on_gpu) == (None, None, False)
    assert probe.prompt_positions("an opening") is None and watch.parts_ms == {}
    probe.settle()
    assert probe.tokens(cast(Any, SimpleNamespace(text_token=5))) == (5,)
    assert probe.tokens(cast(Any, SimpleNamespace(text_token=5, tokens=torch.tensor([5, 1, 2])))) == (5, 1, 2)
    assert Probe(_parts_stepper()).context == 3000
