"""Health for supervisors and figures for Prometheus: three addresses that need no login and tell nothing of any talk.

`/health/live`: 503 once the engine is dead, for the process to be started anew. `/health/ready`: 503 while newcomers
cannot be served: before the start, while a step is late, while the server drains, and once it is dead. `/metrics`.
In: what engine and desk say of themselves. Out: starlette routes. Must not know: gradio, how talks work.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from personaplex_app.metrics import Metrics, Reading

STARTING = "The server is starting."
STALLED = "The engine has not answered for a moment."
NOT_KEPT = {"cache-control": "no-store"}


class EngineStatus(Protocol):
    """The engine at a glance; `failed` is a sentence once it is dead."""

    @property
    def slots(self) -> int: ...
    @property
    def free(self) -> int: ...
    @property
    def step_ms(self) -> float: ...
    @property
    def failed(self) -> str: ...
    @property
    def stalled(self) -> bool: ...
    @property
    def prompts_ready(self) -> int: ...


class Parked(Protocol):
    """Talks that wait for their visitor; the last two are totals since the start."""

    @property
    def count(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    @property
    def expired(self) -> int: ...


class EngineLike(Protocol):
    """What health needs of an engine."""

    @property
    def status(self) -> EngineStatus: ...
    @property
    def parked(self) -> Parked: ...


class DeskStatus(Protocol):
    """The desk at a glance; `draining` is a sentence once nobody is let in any more."""

    @property
    def waiting(self) -> int: ...
    @property
    def talking(self) -> int: ...
    @property
    def draining(self) -> str: ...


class Kept(Protocol):
    """Recordings in memory."""

    @property
    def bytes(self) -> int: ...
    def __len__(self) -> int: ...


class DeskLike(Protocol):
    """What health needs of a front desk."""

    @property
    def status(self) -> DeskStatus: ...
    @property
    def recordings(self) -> Kept: ...


@dataclass(frozen=True)
class Ready:
    """The answer of `/health/ready`; `sentence` says why not, and is empty where newcomers can be served."""

    status: str
    sentence: str
    slots: int
    free: int
    waiting: int
    step_ms: float


class Health:
    """Looks at engine and desk whenever somebody asks.

    Attributes:
        started: set once the server answers and its speed is known.
    """

    def __init__(self, engine: EngineLike, desk: DeskLike) -> None:
        self._engine = engine
        self._desk = desk
        self.started = False

    def ready(self) -> Ready:
        """Whether a newcomer can be served, or has a place in the line; a full house is ready."""
        engine, desk = self._engine.status, self._desk.status
        sentence = engine.failed or desk.draining
        if not sentence and not self.started:
            sentence = STARTING
        if not sentence and engine.stalled:
            sentence = STALLED
        word = "not ready" if sentence else "ok"
        return Ready(word, sentence, engine.slots, engine.free, desk.waiting, round(engine.step_ms, 1))

    def reading(self) -> Reading:
        """The gauges of now."""
        engine, desk, parked = self._engine.status, self._desk.status, self._engine.parked
        return Reading(
            slots=engine.slots,
            slots_free=engine.free,
            talks_live=desk.talking,
            tickets_waiting=desk.waiting,
            step_seconds=engine.step_ms / 1000,
            ready=not self.ready().sentence,
            parked_talks=parked.count,
            parked_bytes=parked.bytes,
            parked_dropped=parked.dropped,
            parked_expired=parked.expired,
            prompts_ready=engine.prompts_ready,
            recordings=len(self._desk.recordings),
            recordings_bytes=self._desk.recordings.bytes,
        )

    def live(self) -> str:
        """Why the process is beyond repair; empty while it is not."""
        return self._engine.status.failed


def health_routes(health: Health, metrics: Metrics) -> list[Route]:
    """The three routes; the metrics' gauges are read from `health` from now on."""
    metrics.watch(health.reading)

    async def live(request: Request) -> Response:
        sentence = health.live()
        return _answer({"status": "failed", "sentence": sentence} if sentence else {"status": "ok"}, not sentence)

    async def ready(request: Request) -> Response:
        found = health.ready()
        return _answer(asdict(found), not found.sentence)

    async def figures(request: Request) -> Response:
        text, kind = metrics.render()
        return Response(text, headers={**NOT_KEPT, "content-type": kind})

    return [Route("/health/live", live), Route("/health/ready", ready), Route("/metrics", figures)]


def _answer(body: dict[str, Any], good: bool) -> JSONResponse:
    return JSONResponse(body, status_code=200 if good else 503, headers=NOT_KEPT)
