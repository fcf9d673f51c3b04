"""The first page: it answers before anything is loaded, tells how far the start is, and nobody meets a closed door."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from support.engine import until
from support.served import free_port
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from personaplex_app.errors import InvalidInput, ServerFault
from personaplex_app.web import starting
from personaplex_app.web.listening import ThreadedServer, listen
from personaplex_app.web.starting import Entrance, ready_route

PAGE = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


@pytest.fixture
def entrance(port: int) -> Iterator[Entrance]:
    with Entrance("127.0.0.1", port) as entrance:
        yield entrance


def test_the_page_says_what_is_done_and_runs_nothing_but_its_own_script(entrance: Entrance, url: str) -> None:
    entrance.report("Fetching <b>a.bin</b>: 3.2 of 12.8 GB, 120 MB/s")
    answer = httpx.get(url + "/", headers=PAGE)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    assert "Fetching &lt;b&gt;a.bin&lt;/b&gt;" in answer.text and "3.2 of 12.8 GB" in answer.text
    assert "{{" not in answer.text and "://" not in answer.text
    policy = answer.headers["content-security-policy"]
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert (
        policy.startswith("default-src 'none'")
        and answer.text.count(f'nonce="{nonce}"') == answer.text.count("<script") + answer.text.count("<style")
        and "unsafe" not in policy
    )
    assert httpx.get(url + "/", headers=PAGE).headers["content-security-policy"] != policy
    assert answer.headers["cache-control"] == "no-store"


def test_the_page_can_ask_how_far_it_is(entrance: Entrance, url: str) -> None:
    entrance.report("Fetching /home/anna/a.bin: 3.2 of 12.8 GB")
    entrance.report("The plan: two lines.")
    told = httpx.get(f"{url}/starting").json()
    assert (told["state"], told["sentence"], told["words"]) == ("starting", "", "Fetching a.bin")
    assert (told["detail"], told["fraction"]) == ("3.2 of 12.8 GB", 0.25)
    assert told["done"][-1] == ["The plan: two lines.", None] and 0 <= told["seconds"] < 5


def test_it_is_said_in_the_visitor_s_language(entrance: Entrance, url: str) -> None:
    entrance.report("The plan: two lines.")
    entrance.report("Loading the model ...")
    answer = httpx.get(url + "/", headers={**PAGE, "accept-language": "zh-TW, en;q=0.5"})
    assert '<html lang="zh-CN">' in answer.text and ">正在载入模型<" in answer.text
    told = httpx.get(f"{url}/starting?language=ko").json()
    assert told["words"] == "모델을 불러오는 중" and ["계획: two lines.", None] in told["done"]
    for unknown in ("../zh", "fr", ""):
        assert httpx.get(f"{url}/starting", params={"language": unknown}).json()["words"] == "Loading the model"


@pytest.mark.parametrize("path", ["", "/", "/any/where/", "/any/where"])
def test_a_browser_sees_the_page_wherever_it_comes(entrance: Entrance, url: str, path: str) -> None:
    assert "<title>Starting" in httpx.get(url + path, headers=PAGE).text


def test_health_lives_and_is_not_ready_and_says_why(entrance: Entrance, url: str) -> None:
    entrance.report("Loading weights ...")
    for prefix in ("", "/behind/a/proxy"):
        assert httpx.get(f"{url}{prefix}/health/live").json() == {"status": "ok"}
        ready = httpx.get(f"{url}{prefix}/health/ready")
        assert ready.status_code == 503 and ready.headers["retry-after"] == "5"
        assert ready.json() == {"status": "not ready", "sentence": "The server is starting. Loading weights."}


@pytest.mark.parametrize(("method", "path"), [("GET", "/talk/lines"), ("POST", "/login"), ("GET", "/metrics")])
def test_all_else_is_told_to_come_back(entrance: Entrance, url: str, method: str, path: str) -> None:
    answer = httpx.request(method, url + path)
    assert answer.status_code == 503 and answer.json()["sentence"].startswith("The server is starting.")


def test_a_talk_s_socket_is_told_to_come_back(entrance: Entrance, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidStatus, match="503"), connect(url.replace("http", "ws") + "/talk/socket"):
        pass
    assert capfd.readouterr().err == ""


def _fails(port: int, error: Exception, ask: Callable[[], object] = lambda: None) -> float:
    """Seconds that a start takes to end with this error, after somebody asked."""
    began = 0.0
    with pytest.raises(type(error)) as raised, Entrance("127.0.0.1", port):
        ask()
        began = time.monotonic()
        raise error
    assert raised.value is error
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InvalidInput("Accept the licence for /models/x."), "Accept the licence for x."),
        (ServerFault("The memory ran out."), "The memory ran out."),
        (RuntimeError("CUDA out of memory. Tried"), "The memory ran out. Start with fewer --slots"),
        (FileNotFoundError(2, "No such file", "/models/x.bin"), "x.bin cannot be used: No such file."),
        (ValueError("internals"), "The server failed while it started (ValueError); its log says more."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_who_looks_reads_why_the_start_failed(
    port: int, url: str, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    monkeypatch.setattr(starting, "LAST_WORDS_SECONDS", 0.3)
    seen: list[dict[str, Any]] = []

    def look() -> None:
        until(lambda: seen.append(httpx.get(f"{url}/starting").json()) or seen[-1]["state"] == "failed")

    with ThreadPoolExecutor(1) as pool:
        looking: list[Any] = []
        taken = _fails(port, error, lambda: (looking.append(pool.submit(look)), until(lambda: seen)))
        looking[0].result()
    assert seen[-1]["sentence"].startswith(sentence) and 0.3 <= taken < 1.5


def test_a_start_that_fails_unseen_ends_at_once(port: int, url: str) -> None:
    assert _fails(port, InvalidInput("No."), lambda: httpx.get(f"{url}/health/live")) < 1.0
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_a_taken_address_is_told_before_anything_is_loaded(port: int) -> None:
    with listen("127.0.0.1", port), pytest.raises(InvalidInput, match=f"Port {port} on 127.0.0.1 is taken"):
        Entrance("127.0.0.1", port)


@pytest.mark.parametrize(
    ("host", "sentence"), [("::1", "an IPv4 address, not ::1"), ("192.0.2.1", "Cannot listen on 192.0.2.1, port")]
)
def test_an_address_that_cannot_be_is_told_in_words(host: str, sentence: str, port: int) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        listen(host, port)


# The hand-over.


async def _real(request: Any) -> PlainTextResponse:
    return PlainTextResponse("the real page")


def _real_server(listening: socket.socket) -> ThreadedServer:
    return ThreadedServer(Starlette(routes=[ready_route(), Route("/", _real)]), listening, "real")


def test_nobody_meets_a_closed_door_between_the_two_servers(entrance: Entrance, url: str) -> None:
    answers: list[str] = []
    over = threading.Event()

    def visit() -> None:
        while not over.is_set():
            answers.append(httpx.get(url + "/", timeout=10).text[:13])

    with ThreadPoolExecutor(3) as pool:
        visitors = [pool.submit(visit) for _ in range(3)]
        until(lambda: len(answers) > 5)
        entrance.close_soon()
        time.sleep(0.1)  # what gradio needs to make its application
        server = _real_server(entrance.hand_over())
        time.sleep(0.2)  # nobody answers: they wait
        server.start()
        until(lambda: answers.count("the real page") > 5)
        over.set()
        for visitor in visitors:
            visitor.result()
    server.close()
    assert set(answers) == {"<!doctype htm", "the real page"} and answers == sorted(answers)


def test_who_was_let_in_before_the_hand_over_and_asks_late_is_answered(entrance: Entrance, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as early:
        time.sleep(0.05)
        entrance.close_soon()
        time.sleep(0.3)
        early.sendall(b"GET /starting HTTP/1.1\r\nhost: x\r\n\r\n")
        entrance.hand_over()
        assert early.recv(15) == b"HTTP/1.1 200 OK"


def test_who_asks_nothing_does_not_hold_the_hand_over_up(entrance: Entrance, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)):
        time.sleep(0.05)
        began = time.monotonic()
        entrance.hand_over()
        assert time.monotonic() - began < 1.5


def test_the_real_server_says_that_it_is_ready(entrance: Entrance, url: str) -> None:
    assert httpx.get(f"{url}/starting").json()["state"] == "starting"
    server = _real_server(entrance.hand_over())
    server.start()
    assert server.loop is not None and server.loop.is_running()
    assert httpx.get(f"{url}/starting").json() == {"state": "ready"}
    server.close()


def test_a_server_that_cannot_start_is_a_fault(port: int) -> None:
    class Broken(ThreadedServer):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            raise SystemExit(3)

    with listen("127.0.0.1", port) as listening, pytest.raises(ServerFault, match="could not start"):
        Broken(Starlette(), listening, "broken").start()
