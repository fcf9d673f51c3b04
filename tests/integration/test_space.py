"""`python app.py` as a Hugging Face Space starts it, and at the door: open, closed, or asking for a password."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.served import free_port, served, wait_until_up
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from personaplex_app.web.catalogue import TOY_NOTICE

ROOT = Path(__file__).parents[2]
FOREIGN = re.compile(r"<(?:script|link|img|iframe)[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>", re.IGNORECASE)
ASKED = ("GRADIO_SERVER_NAME", "GRADIO_SERVER_PORT", "SPACE_ID", "HF_TOKEN", "PERSONAPLEX_ICE_SERVERS")


def _environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ASKED}
    return {**kept, **variables}


def _get(url: str) -> tuple[int, str, dict[str, str]]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Space: its variables, no flags."""
    port = free_port()
    variables = {"SPACE_ID": "x/y", "GRADIO_SERVER_NAME": "0.0.0.0", "GRADIO_SERVER_PORT": str(port)}
    with (tmp_path_factory.mktemp("space") / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "app.py"], cwd=ROOT, env=_environment(**variables), stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_until_up(f"http://127.0.0.1:{port}/", process)
            assert "<title>Starting" in _get(f"http://127.0.0.1:{port}/")[1], "the first page, within a second"
            wait_until_up(f"http://127.0.0.1:{port}/health/ready", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(15)


def test_a_space_answers_and_says_that_it_is_a_toy(space: str) -> None:
    status, page, headers = _get(f"{space}/")
    assert status == 200 and headers["content-type"].startswith("text/html")
    assert TOY_NOTICE.split("**")[1] in page and "HF_TOKEN" in page
    assert "default-src 'self'" in headers["content-security-policy"]


def test_a_space_s_visitor_gets_a_cookie_that_a_frame_may_keep(space: str) -> None:
    proxied = {"x-forwarded-proto": "https"}
    cookie = httpx.get(f"{space}/", headers=proxied).headers["set-cookie"]
    assert cookie.startswith("personaplex_visitor=") and "SameSite=None; Secure; Partitioned" in cookie
    again = httpx.get(f"{space}/", headers={**proxied, "cookie": cookie.partition(";")[0]})
    assert "personaplex_visitor" not in again.headers.get("set-cookie", ""), "and keeps it"


def test_a_space_says_before_the_click_that_no_relay_is_set_up(space: str) -> None:
    lines = httpx.get(f"{space}/talk/lines").json()
    assert "no TURN relay is set up" in lines["notice"] and lines["free"] == 1


def test_a_space_s_page_asks_no_other_origin(space: str) -> None:
    _, page, _ = _get(f"{space}/")
    assert FOREIGN.findall(page) == []
    scripts = re.findall(r"<script[^>]*\bsrc=\"([^\"]+)\"", page)
    assert scripts and not [script for script in scripts if "//" in script]


def test_a_space_offers_its_personas_and_no_documents_of_its_api(space: str) -> None:
    status, config, _ = _get(f"{space}/config")
    assert status == 200
    for title in ("Kate, Blue River bike shop", "NATM0 · natural, male", "Audio temperature"):
        assert title in config
    assert _get(f"{space}/docs")[0] == 404 and _get(f"{space}/redoc")[0] == 404


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", "app.py", "../app.py", "personas/casual.yaml"])
def test_a_space_gives_no_file_away(space: str, path: str) -> None:
    status, body, _ = _get(f"{space}/gradio_api/file={path}")
    assert status in (403, 404) and "root:" not in body and "prompt" not in body


def _refused(*flags: str, **variables: str) -> str:
    """What `app.py` says when it does not start."""
    done = subprocess.run(
        [sys.executable, "app.py", *flags],
        cwd=ROOT,
        env=_environment(**variables),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr and done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    ("flags", "variables", "sentence"),
    [
        (("--host", "0.0.0.0"), {}, r"--host 0\.0\.0\.0 lets anybody in: add --auth USER:PASS, or --public"),
        ((), {"GRADIO_SERVER_NAME": "0.0.0.0"}, "--host 0.0.0.0 lets anybody in"),
        (("--share",), {}, "--share lets anybody in"),
        (("--checkpoint", "hub"), {}, "need a Hugging Face token|GiB of host memory"),
        (("--checkpoint", "nowhere"), {}, "There is no checkpoint directory nowhere"),
    ],
    ids=["address", "variable", "share", "no token", "no checkpoint"],
)
def test_what_cannot_be_served_is_one_sentence(
    flags: tuple[str, ...], variables: dict[str, str], sentence: str
) -> None:
    told = _refused(*flags, **variables).splitlines()
    assert told[-1].startswith("error: ") and re.search(sentence, told[-1])


def test_a_password_is_asked_before_the_page_shows_anything() -> None:
    with served("--engine", "echo", "--auth", "anna:secret") as url:
        page = _get(f"{url}/")[1]
        shown = json.loads(re.findall(r"window\.gradio_config = (\{.*?\});</script>", page)[0])
        assert shown["auth_required"] and shown["components"] == [] and "Echo." not in page
        assert _get(f"{url}/config")[0] == 401
        assert _get(f"{url}/gradio_api/info")[0] == 401
        _assert_that_the_talk_s_routes_ask_too(url)


def _assert_that_the_talk_s_routes_ask_too(url: str) -> None:
    socket = url.replace("http", "ws", 1) + "/talk/socket"
    for cookie in ({}, {"cookie": "access-token-unsecure-x=guess"}):
        assert httpx.get(f"{url}/talk/lines", headers=cookie).status_code == 403
        with pytest.raises(InvalidStatus, match="403"), connect(socket, additional_headers=cookie):
            pass
    with httpx.Client() as client:
        assert client.post(f"{url}/login", data={"username": "anna", "password": "secret"}).status_code == 200
        cookie = {"cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}
    assert httpx.get(f"{url}/talk/lines", headers=cookie).json()["free"] == 1
    with connect(socket, additional_headers=cookie) as line:
        assert json.loads(line.recv(5))["type"] == "hello"


def test_a_dead_engine_ends_the_process_for_its_supervisor() -> None:
    script = (
        "import time, personaplex_app.web.server as server\n"
        "server.LAST_WORDS_SECONDS = 0.2\n"
        "server.exit_soon('The engine has stopped working.')\n"
        "time.sleep(30)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 70 and "The engine has stopped working." in done.stderr
