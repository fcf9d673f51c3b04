"""What engine and web tests share: choices, frames with a number, a stepper that fails on demand, paced talkers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS, Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.echo import EchoSaved, EchoStep, EchoStepper
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.engine.talk_queues import SpokenFrame
from personaplex_app.errors import NoCapacity

CHOICES = Choices("", "none", SamplingSettings(), 1)
BROKEN = "this stepper was told to fail"


def frame_of(value: float) -> Pcm:
    """A frame in which every sample is the value."""
    return np.full(FRAME_SAMPLES, value, dtype=np.float32)


def until(condition: Callable[[], object], seconds: float = 20.0, what: str = "") -> float:
    """Waits until a condition holds; returns how long that took, fails after `seconds`."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {what or condition}"
        time.sleep(0.002)
    return time.monotonic() - began


def is_talking(session: Session) -> bool:
    return session.state is SessionState.TALKING


def is_over(session: Session) -> bool:
    return session.state is SessionState.ENDED


def drained(session: Session) -> list[SpokenFrame]:
    """All spoken frames that wait."""
    found = []
    while (frame := session.take_spoken()) is not None:
        found.append(frame)
    return found


@dataclass(frozen=True)
class Heard:
    """What a slot heard at a step's start, by its first sample."""

    at: float
    slot: int
    value: float


class ProbeStepper(EchoStepper):
    """An echo that fails where it is told to, stops at a gate, and notes what each slot heard and when.

    Attributes:
        fails: names of methods that raise. unhealthy: slots whose numbers are not finite.
        gate: every step waits for it; set at first. at_gate: whether a step waits there.
    """

    def __init__(self, slots: int = 1, step_seconds: float = 0.0, prime_seconds: float = 0.0) -> None:
        super().__init__(slots, step_seconds, prime_seconds)
        self.fails: set[str] = set()
        self.unhealthy: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = False
        self.heard: list[Heard] = []
        self.threads: set[str] = set()

    def _enter(self, method: str) -> None:
        self.threads.add(threading.current_thread().name)
        if method in self.fails:
            raise RuntimeError(BROKEN)

    def prime(self, slot: int, opening: Choices) -> None:
        self._enter("prime")
        super().prime(slot, opening)

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        now = time.monotonic()
        self.heard += [Heard(now, slot, float(pcm[0])) for slot, pcm in heard.items()]
        self._enter("step")
        self.at_gate = not self.gate.is_set()
        assert self.gate.wait(20), "a test left the gate closed"
        self.at_gate = False
        steps = super().step(heard)
        return {slot: replace(step, healthy=slot not in self.unhealthy) for slot, step in steps.items()}

    def set_sampling(self, slot: int, sampling: SamplingSettings) -> None:
        self._enter("set_sampling")
        super().set_sampling(slot, sampling)

    def text(self, token: int) -> bytes:
        self._enter("text")
        return super().text(token)

    def save(self, slot: int) -> EchoSaved:
        self._enter("save")
        return super().save(slot)

    def restore(self, slot: int, saved: EchoSaved) -> None:
        self._enter("restore")
        super().restore(slot, saved)

    def release(self, slot: int) -> None:
        self._enter("release")
        super().release(slot)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Steps that begin in here do not come back before the end of it."""
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()


class Saved:
    """A saved slot that nothing is asked of."""

    bytes = 1

    def to_host(self) -> Saved:
        return self

    def to_device(self) -> Saved:
        return self


@dataclass
class Talker:
    """A visitor who says one frame at a time and keeps what comes back."""

    engine: Engine
    session: Session
    spoken: list[SpokenFrame] = field(default_factory=list)
    said_at: dict[int, float] = field(default_factory=dict)

    def say(self, value: float) -> None:
        self.engine.hear(self.session, frame_of(value))

    def collect(self) -> list[SpokenFrame]:
        self.spoken += drained(self.session)
        return self.spoken

    @property
    def values(self) -> list[float]:
        """The first sample of every frame that came back."""
        return [float(frame.pcm[0]) for frame in self.collect()]


def join_talking(engine: Engine, seconds: float = 20.0) -> Talker:
    """Joins and waits until the talk runs."""
    session = engine.join(CHOICES)
    until(lambda: is_talking(session), seconds, "priming done")
    return Talker(engine, session)


def join_when_free(engine: Engine, seconds: float = 20.0) -> Session:
    """Asks again and again until a slot is free."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return engine.join(CHOICES)
        except NoCapacity:
            assert time.monotonic() < deadline, "no slot became free"
            time.sleep(0.005)


def pace(frames: int, say: Callable[[int], None], talkers: Sequence[Talker] = ()) -> None:
    """Calls `say` with 0, 1, ... every 80 ms on a steady clock, and takes what the talkers' sessions have meanwhile."""
    began = time.monotonic()
    for index in range(frames):
        say(index)
        while (left := began + (index + 1) * FRAME_SECONDS - time.monotonic()) > 0:
            time.sleep(min(left, 0.01))
            for talker in talkers:
                talker.collect()
