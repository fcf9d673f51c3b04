"""Recorded steps: on a GPU a step is replayed as one CUDA graph per shape instead of launched kernel by kernel.

In: a computation on fixed tensors. Out: its result, in tensors that the next replay overwrites.
Must not know: what is computed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

import torch

Shape = TypeVar("Shape")
Result = TypeVar("Result")
WARM_UP_RUNS = 2

log = logging.getLogger(__name__)


class GraphRecorder(Generic[Shape, Result]):
    """Records `compute(shape)` once per shape and replays it afterwards; all graphs share one memory pool.

    A shape that cannot be recorded is launched kernel by kernel from then on.

    Args:
        compute: reads and writes tensors that stay where they are, and nothing else.
        at_rest: called before recording; must make `compute` leave the state as it is, and return what undoes that.

    Attributes:
        remark: what whoever runs it should know; empty while every shape was recorded.
    """

    def __init__(self, compute: Callable[[Shape], Result], at_rest: Callable[[], Callable[[], None]]) -> None:
        self._compute = compute
        self._at_rest = at_rest
        self._pool = torch.cuda.graph_pool_handle()
        self._side = torch.cuda.Stream()  # one for all: every stream brings workspaces of the libraries'
        self._recorded: dict[Shape, tuple[torch.cuda.CUDAGraph, Result]] = {}
        self._launched: set[Shape] = set()
        self.remark = ""

    def run(self, shape: Shape) -> Result:
        """Replays; records first where this shape is new."""
        if shape not in self._recorded and shape not in self._launched:
            self.record(shape)
        if shape in self._launched:
            return self._compute(shape)
        graph, result = self._recorded[shape]
        graph.replay()
        return result

    def record(self, shape: Shape) -> None:
        """Warms up and records with every row at rest; raises what the computation itself raises."""
        undo = self._at_rest()
        try:
            self._warm_up(shape)
            self._capture(shape)
        finally:
            undo()

    def _warm_up(self, shape: Shape) -> None:
        side = self._side
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_RUNS):
                self._compute(shape)
        torch.cuda.current_stream().wait_stream(side)

    def _capture(self, shape: Shape) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            # Thread-local: another thread may bring a parked talk back meanwhile, which is not the recording's concern.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                result = self._compute(shape)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            log.warning("a step could not be recorded", exc_info=True)
            self._launched.add(shape)
            why = type(error).__name__
            self.remark = f"Steps cannot be recorded here ({why}); they are launched one by one, which is slower."
            return
        self._recorded[shape] = (graph, result)
