"""Callers spread over processes of their own, so that many of them keep their schedule.

In: plans. Out: results of all of them, those of a process that died included. Must not know: what a call is.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from personaplex_app.audio import Pcm
from personaplex_app.evaluation.calls import CallPlan, CallResult

READY_SECONDS = 120.0
MEASURE_SECONDS = 120.0
GONE = "The process of this caller ended before it could say what became of it."


class Crew:
    """Worker processes; use as a context manager. They are ready when it is entered."""

    def __init__(self, processes: int, kinds: Sequence[str], speech: Pcm | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._lines: list[Connection] = []
        self._workers: list[Any] = []
        for _ in range(processes):
            here, there = context.Pipe()
            worker = context.Process(target=work, args=(there, tuple(kinds), speech), daemon=True)
            worker.start()
            there.close()
            self._lines.append(here)
            self._workers.append(worker)

    def __enter__(self) -> Crew:
        for line in self._lines:
            if not line.poll(READY_SECONDS) or line.recv() != "ready":
                raise RuntimeError("a caller's process did not start")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for worker, line in zip(self._workers, self._lines, strict=True):
            line.close()
            worker.join(5.0 if kind is None else 0.2)
            if worker.is_alive():
                worker.terminate()
                worker.join()
            worker.close()

    def hold(self, plans: Sequence[CallPlan], meanwhile: Callable[[], None]) -> tuple[list[CallResult], float]:
        """Makes all calls; returns their results in order, and the CPU seconds that all callers used together."""
        shares = [list(plans[number :: len(self._lines)]) for number in range(len(self._lines))]
        for line, share in zip(self._lines, shares, strict=True):
            line.send(share)
        meanwhile()
        results: list[CallResult] = []
        cpu_seconds = 0.0
        deadline = max(plan.ends_at for plan in plans) + MEASURE_SECONDS
        for line, share in zip(self._lines, shares, strict=True):
            done, seconds = _take(line, share, deadline)
            results += done
            cpu_seconds += seconds
        return sorted(results, key=lambda result: result.number), cpu_seconds


def _take(line: Connection, share: list[CallPlan], deadline: float) -> tuple[list[CallResult], float]:
    try:
        if line.poll(max(0.0, deadline - time.monotonic())):
            results, seconds = line.recv()
            return results, seconds
    except EOFError:
        pass
    return [CallResult(plan.number, plan.kind, code="worker_died", sentence=GONE) for plan in share], 0.0


def work(line: Connection, kinds: Sequence[str], speech: Pcm | None) -> None:
    """A worker's whole life: loads what its kinds of calls need, takes its share, makes it, says what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    _load(kinds)
    try:
        line.send("ready")
        share = line.recv()
        before = time.process_time()
        results = asyncio.run(_hold_all(share, speech))
        line.send((results, time.process_time() - before))
    except (EOFError, BrokenPipeError):
        return


def _load(kinds: Sequence[str]) -> None:
    import personaplex_app.evaluation.socket_caller

    if "webrtc" in kinds:
        import personaplex_app.evaluation.webrtc_caller  # noqa: F401
        from personaplex_app.web.peers import use_small_jitter_buffer

        use_small_jitter_buffer()


async def _hold_all(share: Sequence[CallPlan], speech: Pcm | None) -> list[CallResult]:
    from personaplex_app.evaluation.caller import Call

    calls = [Call(plan, speech) for plan in share]
    await asyncio.gather(*(call.hold() for call in calls))
    return [call.measured() for call in calls]
