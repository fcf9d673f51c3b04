"""The watchdog over a real server: a late or failed step is told within a second to who talks, and to a supervisor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from support.engine import until
from support.served import Served, serving
from support.socket_talk import SocketTalk, dialled, talking

from personaplex_app.engine.guard import Guard
from personaplex_app.engine.tick_loop import ENGINE_DEAD, STEP_FAILED
from personaplex_app.web.health import STALLED
from personaplex_app.web.server import FATAL_EXIT_CODE, LAST_WORDS_SECONDS

pytestmark = pytest.mark.timed

PROBE = Path(__file__).parents[1] / "support" / "probe_server.py"
TOLD_SECONDS = 1.0
BUSY_SECONDS = 0.3  # that a busy machine may be late
HUNG_SECONDS = 2.5


@dataclass(frozen=True)
class House:
    """An echo server whose steps hang or fail while a file exists."""

    server: Served
    hang: Path
    fail: Path

    @property
    def url(self) -> str:
        return self.server.url

    @contextmanager
    def hanging(self) -> Iterator[float]:
        """Steps do not come back in here; yields since when."""
        self.hang.touch()
        try:
            yield time.monotonic()
        finally:
            self.hang.unlink()

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path)


@contextmanager
def opened(folder: Path, **variables: str) -> Iterator[House]:
    hang, fail = folder / "hang", folder / "fail"
    flags = ("--engine", "echo", "--slots", "2")
    with serving(*flags, script=PROBE, PROBE_HANG=str(hang), PROBE_FAIL=str(fail), **variables) as server:
        yield House(server, hang, fail)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(tmp_path_factory.mktemp("house")) as house:
        yield house


def _last_state(talk: SocketTalk) -> str:
    return [message["sentence"] for _, message in talk.told if message["type"] == "talk"][-1]


def _told_of_the_stall(talk: SocketTalk) -> bool:
    return talk.find("talk", lambda message: "has not answered" in message["sentence"]) is not None


def test_a_late_step_is_told_to_who_talks_and_to_the_supervisor(house: House) -> None:
    with talking(house.url) as one, talking(house.url) as other:
        assert house.get("/health/ready").status_code == 200
        with house.hanging() as since:
            until(lambda: _told_of_the_stall(one) and _told_of_the_stall(other), 3.0, "told of the stall")
            assert time.monotonic() - since <= TOLD_SECONDS + BUSY_SECONDS
            ready = house.get("/health/ready")
            assert (ready.status_code, ready.json()["sentence"]) == (503, STALLED)
            assert house.get("/health/live").status_code == 200, "late is not dead"
            before = len(one.sound)
        until(lambda: len(one.sound) > before + 5, 3.0, "the sound goes on")
        assert house.get("/health/ready").status_code == 200
        until(lambda: "has not answered" not in _last_state(one), 1.0, "and it is forgotten")
        one.say("stop")
        one.wait("ended", code="stopped")


def test_the_watch_goes_on_though_somebody_cannot_be_told() -> None:
    told: list[str] = []

    def cannot_be_told() -> None:
        told.append("stalled")
        raise RuntimeError("this one cannot be told")

    guard = Guard(cannot_be_told, lambda: told.append("hung"), time.monotonic)
    guard.start()
    with guard.working(1.2):
        until(lambda: "hung" in told, 5.0, "given up")
    guard.stop()
    assert told.count("stalled") > 1 and told.count("hung") == 1


def test_a_failed_step_ends_its_talks_in_words_and_newcomers_are_served(house: House) -> None:
    with talking(house.url) as talk:
        house.fail.touch()
        since = time.monotonic()
        try:
            talk.wait("ended", 3.0, code="fault", sentence=STEP_FAILED)
            assert time.monotonic() - since <= TOLD_SECONDS + BUSY_SECONDS
        finally:
            house.fail.unlink()
        assert house.get("/health/live").status_code == house.get("/health/ready").status_code == 200
    with talking(house.url) as newcomer:
        newcomer.say("stop")
        newcomer.wait("ended", code="stopped")
    assert 'personaplex_talks_ended_total{code="fault"} 1.0' in house.get("/metrics").text


def test_the_figures_of_a_talk_can_be_scraped_while_it_runs(house: House) -> None:
    def figure(name: str) -> float:
        lines = house.get("/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"personaplex_{name} "))

    ticks, primed, connected = (figure(f"{name}_seconds_count") for name in ("tick", "prime", "connect"))
    started = figure('talks_started_total{path="socket"}')
    heard, parked = figure('sound_frames_total{fate="heard"}'), figure("parked_talks")
    with talking(house.url) as talk:
        until(lambda: len(talk.sound) > 12, 5.0, "a second of sound")
        assert figure("talks_live") == 1 and figure("slots_free") == 1 and figure("ready") == 1
        assert figure("tick_seconds_count") >= ticks + 10
        assert figure('sound_frames_total{fate="heard"}') >= heard + 8, "counted before the talk is over"
        assert figure('talks_started_total{path="socket"}') == started + 1
        assert (figure("prime_seconds_count"), figure("connect_seconds_count")) == (primed + 1, connected + 1)
        talk.say("stop")
        talk.wait("ended", code="stopped")
    until(lambda: figure("talks_live") == 0 and figure("slots_free") == 2, 3.0, "all is free again")
    assert figure("parked_talks") <= parked, "a clean stop leaves nothing"


def test_a_hung_step_ends_the_process_for_its_supervisor_and_all_are_told(tmp_path: Path) -> None:
    with opened(tmp_path, PROBE_HUNG_SECONDS=str(HUNG_SECONDS)) as house, talking(house.url) as talk:
        with house.hanging() as since:
            until(lambda: _told_of_the_stall(talk), 3.0, "told of the stall")
            assert time.monotonic() - since <= TOLD_SECONDS + BUSY_SECONDS
            assert talk.wait("ended", HUNG_SECONDS + TOLD_SECONDS, code="fault")["sentence"] == ENGINE_DEAD
            live, ready = house.get("/health/live"), house.get("/health/ready")
            assert (live.status_code, live.json()["sentence"]) == (503, ENGINE_DEAD) and ready.status_code == 503
            with dialled(house.url) as newcomer:
                newcomer.say("ask", choices={})
                assert newcomer.wait("refused")["sentence"] == ENGINE_DEAD
            assert house.server.ended(LAST_WORDS_SECONDS + 5.0) == FATAL_EXIT_CODE
        assert "Traceback" not in house.server.printed
