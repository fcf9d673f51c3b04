"""The bench's one look into a stepper: how long a step's parts take, how long its window is, what its weights take.

In: a stepper. Out: milliseconds, sizes; None for whatever this stepper does not show. Every attribute beyond
`engine.ports.Stepper` is read here, and none of them has to be there.
Must not know: sessions, schedules, how figures are shown.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from personaplex_app.engine.ports import Stepper, StepResult
from personaplex_app.evaluation.bench_memory import tensor_bytes

PARTS = {"codec_in": ("codec", "encode"), "language": ("language", "advance"), "codec_out": ("codec", "decode")}
UNTIL_ENQUEUED = "a tick's time without that spent waiting for the GPU"
THREAD_CPU = "CPU time of the tick thread, arithmetic included"


class Probe:
    """What can be told of one stepper."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        device = getattr(getattr(stepper, "codec", None), "device", None)
        self.on_gpu = getattr(device, "type", "cpu") == "cuda"

    @property
    def context(self) -> int | None:
        """Positions of a full window."""
        context = getattr(self._stepper, "context", None)
        return context if isinstance(context, int) else None

    def prompt_positions(self, opening: Any) -> int | None:
        """How many positions an opened conversation's prompt takes."""
        frames = getattr(getattr(opening, "plan", None), "frames", None)
        return frames if isinstance(frames, int) else None

    def tokens(self, result: StepResult) -> tuple[int, ...]:
        """Text first, then the agent's codes where they are shown."""
        shown = getattr(result, "tokens", None)
        return (result.text_token,) if shown is None else tuple(int(token) for token in shown)

    def weights_bytes(self) -> int | None:
        """Memory of all weights, codec included."""
        codec = getattr(self._stepper, "codec", None)
        mimi = getattr(codec, "mimi", None) or getattr(getattr(codec, "step", None), "weights", None)
        parts = [getattr(getattr(self._stepper, "language", None), "weights", None), mimi]
        return None if any(part is None for part in parts) else tensor_bytes(parts)

    def with_noise(self, saved: Any, positions: int) -> Any | None:
        """A saved slot with a random past of so many positions; None where its kind is not known here."""
        row: Any = getattr(saved, "language", None)
        kv = getattr(row, "kv", None)
        if kv is None or self.context is None:
            return None
        import torch

        used = min(positions, self.context)
        past = torch.empty((*kv.shape[:3], used, kv.shape[4]), device=kv.device, dtype=kv.dtype)
        past.normal_(0.0, float(kv.float().std()))  # in place: a larger piece of memory would stay taken around it
        return replace(saved, language=replace(row, kv=past, position=positions))

    def parts_apart(self, rows: int) -> dict[str, list[float]]:
        """A step's parts, each measured by itself, where the stepper can do that; a recorded step has no seams."""
        measure = getattr(self._stepper, "parts_ms", None)
        return measure(rows) if callable(measure) else {}

    def settle(self) -> None:
        """Waits until the GPU has done all it was given."""
        if self.on_gpu:
            import torch

            torch.cuda.synchronize()

    @contextlib.contextmanager
    def timing(self) -> Iterator[Stopwatch]:
        """A stopwatch that sees the calls of a step's parts while the context lasts."""
        watch = Stopwatch(_gpu_event if self.on_gpu else None)
        with contextlib.ExitStack() as undo:
            for part, (owner_name, name) in PARTS.items():
                owner = getattr(self._stepper, owner_name, None)
                if callable(getattr(owner, name, None)):
                    undo.enter_context(_replaced(owner, name, watch.watched(part, getattr(owner, name))))
            yield watch


@contextlib.contextmanager
def _replaced(owner: Any, name: str, call: Callable[..., Any]) -> Iterator[None]:
    """`owner.name` is `call` for a while; an owner that allows no such thing is left alone."""
    own = vars(owner).get(name) if hasattr(owner, "__dict__") else None
    try:
        setattr(owner, name, call)
    except AttributeError:
        yield
        return
    try:
        yield
    finally:
        delattr(owner, name)
        if own is not None:
            setattr(owner, name, own)


def _gpu_event() -> Any:
    """A mark in the GPU's line of work."""
    import torch

    event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


class Stopwatch:
    """Times a step's parts; during the step it waits for nothing.

    Args:
        event: marks the GPU's line of work, and tells the milliseconds to another mark; None where there is no GPU.
    """

    def __init__(self, event: Callable[[], Any] | None = None, clock: Callable[[], float] = time.perf_counter) -> None:
        self._event, self._clock = event, clock
        self._parts: dict[str, list[float]] = {part: [] for part in PARTS}
        self._marks: list[tuple[str, Any, Any, float, float]] = []
        self._began = self._ended = self._thread = 0.0
        self._ticks = 0
        self.host_ms: list[float] = []
        self.host_is = UNTIL_ENQUEUED if event else THREAD_CPU

    @property
    def parts_ms(self) -> dict[str, list[float]]:
        """A value a tick for each part that every tick showed."""
        return {part: values for part, values in self._parts.items() if values and len(values) == self._ticks}

    def watched(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, timed."""

        def timed(*given: Any, **named: Any) -> Any:
            before, began = self._event and self._event(), self._clock()
            result = call(*given, **named)
            self._marks.append((part, before, self._event and self._event(), began, self._clock()))
            return result

        return timed

    def begin(self) -> None:
        """A tick begins."""
        self._marks.clear()
        self._began, self._thread = self._clock(), time.thread_time()

    def end(self) -> None:
        """A tick is over: what it was given is delivered."""
        self._ended, self._thread = self._clock(), time.thread_time() - self._thread

    def collect(self) -> None:
        """Adds up the tick's parts; to be called outside its time."""
        self._ticks += 1
        if self._event and self._marks:
            self._marks[-1][2].synchronize()
        sums: dict[str, float] = {}
        for part, before, after, began, ended in self._marks:
            took = before.elapsed_time(after) if self._event else 1000 * (ended - began)
            sums[part] = sums.get(part, 0.0) + took
        for part, took in sums.items():
            self._parts[part].append(took)
        self.host_ms.append(self._host_ms())

    def _host_ms(self) -> float:
        """On a GPU: the tick without the time between the last part's launch and the moment the GPU had done it."""
        seen = [part for part, *_ in self._marks]
        if not self._event or seen[:1] != ["codec_in"] or seen[-1:] != ["codec_out"]:
            self.host_is = THREAD_CPU
            return 1000 * self._thread
        (_, first, _, began, _), (_, _, last, _, launched) = self._marks[0], self._marks[-1]
        waited: float = max(0.0, began + first.elapsed_time(last) / 1000 - launched)
        return 1000 * max(0.0, self._ended - self._began - waited)
