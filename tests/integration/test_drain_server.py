"""SIGTERM at the real server: talks on both paths are seen out, pages do not hold it up, and it ends without a fuss."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import httpx
from support.engine import until
from support.rtc_peer import tone
from support.rtc_talk import rtc_talk
from support.served import ROOT, Served, free_port, serving
from support.socket_talk import dialled, talking

from personaplex_app.engine.tick_loop import CLOSING
from personaplex_app.web.drain import closing_sentence


def _ended_well(server: Served, seconds: float, code: int = 0) -> None:
    """Ended in time, with this code, and without a word of failure."""
    assert server.ended(seconds) == code
    assert [word for word in ("Traceback", "ERROR", "Exception") if word in server.printed] == []


def test_talks_go_on_after_sigterm_until_they_are_over_and_nobody_else_is_let_in() -> None:
    flags = ("--engine", "echo", "--slots", "2", "--drain-seconds", "30")
    with serving(*flags, fresh=True) as server, talking(server.url) as talk, dialled(server.url) as newcomer:
        server.process.send_signal(signal.SIGTERM)
        warning = talk.wait("warning", 2.0, code="draining")
        assert warning["seconds"] == 30 and warning["sentence"] == closing_sentence(30)
        newcomer.say("ask", choices={})
        assert newcomer.wait("refused", code="draining")["sentence"] == closing_sentence(30)
        ready = httpx.get(f"{server.url}/health/ready")
        assert (ready.status_code, ready.json()["sentence"]) == (503, closing_sentence(30))
        assert httpx.get(f"{server.url}/health/live").status_code == 200
        before = len(talk.sound)
        until(lambda: len(talk.sound) > before + 12, 5.0, "the talk goes on")
        assert server.process.poll() is None
        talk.say("stop")
        talk.wait("ended", code="stopped")
        _ended_well(server, 10.0)


def test_who_talks_too_long_after_sigterm_is_told_that_the_server_ends() -> None:
    with serving("--engine", "echo", "--drain-seconds", "1.5") as server, talking(server.url) as talk:
        server.process.send_signal(signal.SIGTERM)
        assert talk.wait("ended", 4.0, code="draining")["sentence"] == CLOSING
        _ended_well(server, 10.0)
        assert "Somebody still talks" in server.printed


def test_a_talk_over_webrtc_is_told_too_and_leaves_no_traceback() -> None:
    async def story(server: Served) -> None:
        async with rtc_talk(server.url, tone(440.0)) as call:
            await call.peer.heard_for(0.5, within=10.0)
            server.process.send_signal(signal.SIGTERM)
            until_over = asyncio.get_running_loop().time() + 5.0
            while call.talk.ended is None and asyncio.get_running_loop().time() < until_over:
                await asyncio.sleep(0.05)
            assert call.talk.ended is not None and call.talk.ended.code == "draining"
            assert await asyncio.to_thread(server.ended, 10.0) == 0

    with serving("--engine", "echo", "--drain-seconds", "1", fresh=True) as server:
        asyncio.run(story(server))
        _ended_well(server, 1.0)


def test_an_empty_server_ends_at_once_though_pages_are_open() -> None:
    with serving("--engine", "echo", fresh=True) as server:
        beats = f"{server.url}/gradio_api/heartbeat/abc"  # what every open page holds on to
        with httpx.stream("GET", beats, timeout=30) as page, dialled(server.url) as idle:
            assert page.status_code == 200
            idle.wait("hello")
            server.process.send_signal(signal.SIGINT)
            _ended_well(server, 10.0)


def test_a_second_sigterm_ends_a_server_full_of_talks_at_once() -> None:
    with serving("--engine", "echo", "--drain-seconds", "30") as server, talking(server.url) as talk:
        server.process.send_signal(signal.SIGTERM)
        talk.wait("warning", 2.0, code="draining")
        server.process.send_signal(signal.SIGTERM)
        _ended_well(server, 3.0, 128 + signal.SIGTERM)


def test_sigterm_while_the_model_loads_ends_the_process_without_a_fuss() -> None:
    script = (
        "import hashlib, personaplex_app.web.server as server\n"
        "from personaplex_app.cli import main\n"
        "def load(settings, report):\n"
        "    print('loading', flush=True)\n"
        "    hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)\n"  # minutes in C, as a long load is
        "server.make_stepper = load\n"
        f"main(['serve', '--engine', 'echo', '--port', '{free_port()}'])\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "loading\n"
        process.terminate()
        told, failed = process.communicate(timeout=3)
    assert (process.returncode, told) == (0, "")
    assert [line for line in failed.splitlines() if not line.startswith("INFO ")] == []
