"""Health and figures as a supervisor and Prometheus ask for them: over fakes, a real engine and the real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import httpx
import pytest
from starlette.applications import Starlette
from support.engine import ProbeStepper, join_talking, until
from support.served import served

from personaplex_app.engine.facade import Engine, EngineStatus
from personaplex_app.metrics import Metrics
from personaplex_app.web.health import STALLED, STARTING, Health, health_routes

DEAD = "The engine has stopped working."
CLOSING = "The server is going to stop."


@dataclass
class FakeParked:
    count: int = 0
    bytes: int = 0
    dropped: int = 0
    expired: int = 0


@dataclass
class FakeEngine:
    status: EngineStatus = field(default_factory=lambda: EngineStatus(2, 1, 15.04, ""))
    parked: FakeParked = field(default_factory=FakeParked)


@dataclass
class FakeDeskStatus:
    waiting: int = 0
    talking: int = 1
    draining: str = ""


@dataclass
class FakeRecordings:
    bytes: int = 0
    count: int = 0

    def __len__(self) -> int:
        return self.count


@dataclass
class FakeDesk:
    status: FakeDeskStatus = field(default_factory=FakeDeskStatus)
    recordings: FakeRecordings = field(default_factory=FakeRecordings)


@dataclass
class House:
    """The three routes over a fake engine and a fake desk."""

    engine: FakeEngine = field(default_factory=FakeEngine)
    desk: FakeDesk = field(default_factory=FakeDesk)
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self.health = Health(self.engine, self.desk)
        self.health.started = True
        self.routes = health_routes(self.health, self.metrics)

    def ask(self, path: str, method: str = "GET") -> httpx.Response:
        """What the routes answer."""

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(Starlette(routes=self.routes))
            async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
                return await client.request(method, path)

        return asyncio.run(ask())


@pytest.fixture
def house() -> House:
    return House()


def test_a_house_in_order_is_live_and_ready(house: House) -> None:
    live, ready = house.ask("/health/live"), house.ask("/health/ready")
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    told = {"status": "ok", "sentence": "", "slots": 2, "free": 1, "waiting": 0, "step_ms": 15.0}
    assert (ready.status_code, ready.json()) == (200, told)
    assert live.headers["cache-control"] == ready.headers["cache-control"] == "no-store"


def _starting(house: House) -> None:
    house.health.started = False


def _draining(house: House) -> None:
    house.desk.status.draining = CLOSING


def _stalled(house: House) -> None:
    house.engine.status = replace(house.engine.status, stalled=True)


def _dead(house: House) -> None:
    house.engine.status = replace(house.engine.status, failed=DEAD, stalled=True)


@pytest.mark.parametrize(
    ("trouble", "sentence", "live"),
    [(_starting, STARTING, 200), (_draining, CLOSING, 200), (_stalled, STALLED, 200), (_dead, DEAD, 503)],
    ids=["starting", "draining", "stalled", "dead"],
)
def test_newcomers_are_turned_away_in_words(
    house: House, trouble: Callable[[House], None], sentence: str, live: int
) -> None:
    trouble(house)
    ready = house.ask("/health/ready")
    assert (ready.status_code, ready.json()["status"], ready.json()["sentence"]) == (503, "not ready", sentence)
    assert house.ask("/health/live").status_code == live
    assert "personaplex_ready 0.0" in house.ask("/metrics").text


def test_a_dead_engine_says_why(house: House) -> None:
    _dead(house)
    assert house.ask("/health/live").json() == {"status": "failed", "sentence": DEAD}


def test_a_full_house_is_ready_for_there_is_a_line(house: House) -> None:
    house.engine.status, house.desk.status.waiting = replace(house.engine.status, free=0), 7
    ready = house.ask("/health/ready")
    assert ready.status_code == 200 and (ready.json()["free"], ready.json()["waiting"]) == (0, 7)


def test_the_figures_are_those_of_engine_and_desk(house: House) -> None:
    house.engine.parked = FakeParked(count=1, bytes=2048, dropped=3, expired=4)
    house.desk.recordings = FakeRecordings(7680, 1)
    house.desk.status = FakeDeskStatus(waiting=5, talking=6)
    house.metrics.refused("no_capacity")
    answer = house.ask("/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=")
    lines = set(answer.text.splitlines())
    gauges = {"slots": 2, "slots_free": 1, "talks_live": 6, "tickets_waiting": 5, "ready": 1, "parked_talks": 1}
    gauges |= {"parked_bytes": 2048, "parked_dropped": 3, "parked_expired": 4}
    gauges |= {"recordings": 1, "recordings_bytes": 7680}
    assert {f"personaplex_{name} {float(value)}" for name, value in gauges.items()} <= lines
    assert "personaplex_step_seconds 0.01504" in lines
    assert 'personaplex_refusals_total{code="no_capacity"} 1.0' in lines


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_looking_is_all_that_anybody_can_do(house: House, path: str) -> None:
    assert [house.ask(path, method).status_code for method in ("POST", "PUT", "DELETE")] == [405] * 3


# Over a real engine.


@pytest.mark.timed
def test_a_real_engine_turns_health_while_a_step_is_late() -> None:
    stepper = ProbeStepper(slots=2)
    with Engine(stepper) as engine:
        health = Health(engine, FakeDesk())
        health.started = True
        talker = join_talking(engine)
        with stepper.stopped():
            talker.say(1)
            told = until(lambda: health.ready().sentence)
            assert health.ready().sentence == STALLED and told <= 1.0 + 0.2, "within a second, on a busy machine"
        until(lambda: not health.ready().sentence)
        assert health.ready().free == 1 and not health.live()


# Beside gradio: its routes, its login and its middleware.

PREFIX = "/behind/a/proxy"


@pytest.fixture(scope="module")
def locked_server() -> Iterator[str]:
    """The real server with a login, under a path that a proxy adds."""
    with served("--engine", "echo", "--auth", "anna:secret", GRADIO_ROOT_PATH=PREFIX) as url:
        yield url


@pytest.mark.parametrize("prefix", ["", PREFIX], ids=["proxy strips its path", "proxy leaves its path"])
@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_health_needs_no_login_and_stands_before_gradio_s_own_pages(locked_server: str, prefix: str, path: str) -> None:
    answer = httpx.get(locked_server + prefix + path)
    assert answer.status_code == 200 and ("ok" in answer.text or "personaplex_slots 1.0" in answer.text)
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/config", "/health/../config", "/health/live/../../config", "/gradio_api/info"])
def test_nothing_else_is_open(locked_server: str, path: str) -> None:
    assert httpx.get(locked_server + path).status_code in (401, 404)


def test_a_page_of_another_origin_cannot_read_the_figures(locked_server: str) -> None:
    answer = httpx.get(f"{locked_server}/metrics", headers={"origin": "http://elsewhere.example"})
    assert "access-control-allow-origin" not in answer.headers
