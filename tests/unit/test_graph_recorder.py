"""A step that cannot be recorded is launched instead, once tried, and what was put to rest is put back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from personaplex_app.model.graphs import GraphRecorder

SHAPE = "a shape"


class World:
    """What is computed, and how often; the GPU's part is played by nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failure: Exception | None = None) -> None:
        self.computed = self.captures = self.replays = self.resting = 0
        self.failure = failure
        self.broken = False
        fakes = {
            "graph_pool_handle": lambda: 0,
            "Stream": lambda: self,
            "current_stream": lambda: self,
            "stream": lambda side: contextlib.nullcontext(),
            "CUDAGraph": lambda: self,
            "graph": self.capture,
        }
        for name, fake in fakes.items():
            monkeypatch.setattr(torch.cuda, name, fake)
        self.recorder: GraphRecorder[str, int] = GraphRecorder(self.compute, self.at_rest)

    def wait_stream(self, other: Any) -> None:
        assert other is self

    @contextlib.contextmanager
    def capture(self, graph: Any, **named: Any) -> Iterator[None]:
        self.captures += 1
        yield
        if self.failure is not None:
            raise self.failure

    def replay(self) -> None:
        self.replays += 1

    def compute(self, shape: str) -> int:
        if self.broken:
            raise RuntimeError("the computation itself")
        self.computed += 1
        return self.computed

    def at_rest(self) -> Callable[[], None]:
        self.resting += 1

        def undo() -> None:
            self.resting -= 1

        return undo


def test_a_shape_is_recorded_once_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert world.recorder.run(SHAPE) == world.recorder.run(SHAPE) == 3
    assert (world.captures, world.replays, world.resting, world.recorder.remark) == (1, 2, 0, "")


def test_what_cannot_be_recorded_is_launched_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, RuntimeError("operation not permitted when stream is capturing"))
    first, second = world.recorder.run(SHAPE), world.recorder.run(SHAPE)
    assert second == first + 1, "each run computes"
    assert (world.captures, world.replays, world.resting) == (1, 0, 0)
    assert "launched one by one" in world.recorder.remark


def test_lack_of_memory_and_a_broken_computation_are_raised_with_the_rest_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(torch.OutOfMemoryError):
        world.recorder.run(SHAPE)
    assert world.resting == 0 and world.recorder.remark == ""
    world.broken = True
    with pytest.raises(RuntimeError, match="the computation itself"):
        world.recorder.run("another")
    assert world.resting == 0
