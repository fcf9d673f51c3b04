"""The wire, shown by the echo engine in a real browser: what comes back is what was said, soon, and nothing leaks."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from support.browser import browser_page, collected, second_visitor, start_call, stop_call, text_of, wait_for_text
from support.served import served
from support.signals import best_correlation, clicks, latencies_ms
from support.speech import pause, speak

from .conftest import PROBE

SENTENCE = "Good morning, this is a test of the line, and every word of it should come back to me."
TWICE = "() => [1, 2].forEach(() => document.getElementById('talk-button').click())"
ATTEMPTS = 3  # a shared machine may be busy with something else for a while


def _talk(url: str, wav: object, seconds: float) -> tuple[np.ndarray, np.ndarray, int]:
    with browser_page(url, wav) as page:
        start_call(page)
        wait_for_text(page, "status", "Talking")
        page.wait_for_timeout(1000 * seconds)
        tracks = collected(page)
        stop_call(page)
        wait_for_text(page, "status", "lines free")
        return tracks


@pytest.mark.timed
@pytest.mark.parametrize(("server", "least"), [("plain_url", 0.9), ("echo_url", 0.6)], ids=["plain", "defaults"])
def test_what_was_said_comes_back(microphone, request, server, least) -> None:
    url, wav = request.getfixturevalue(server), microphone(np.concatenate([pause(0.3), speak(SENTENCE)]))
    found = []
    for _ in range(ATTEMPTS):
        found.append(best_correlation(*_talk(url, wav, 14)))
        if found[-1] > least:
            return
    pytest.fail(f"correlations {found}")


@pytest.mark.timed
def test_mouth_to_ear(microphone, plain_url) -> None:
    wav = microphone(clicks(7.0), 48_000)
    measured = []
    for _ in range(ATTEMPTS):
        times = latencies_ms(*_talk(plain_url, wav, 15))
        assert len(times) > 12
        measured.append((float(np.median(times)), float(np.percentile(times, 99))))
        if measured[-1][0] <= 200 and measured[-1][1] <= 280:
            return
    pytest.fail(f"p50, p99 in ms: {measured}")


def test_a_second_visitor_waits_in_line_and_talks_when_it_is_her_turn(microphone, echo_url) -> None:
    with browser_page(echo_url, microphone(speak("Hello."))) as first:
        start_call(first)
        wait_for_text(first, "status", "Talking")
        wait_for_text(first, "path", "direct (WebRTC)")
        second = second_visitor(first, echo_url)
        wait_for_text(second, "status", "one line only")  # before the click already
        waited = time.monotonic()
        start_call(second, wait_connected=False)
        words = wait_for_text(second, "status", "You are number 1 in the line; about")
        assert time.monotonic() - waited < 4.0, "and soon on a busy machine too, microphone asked for and all"
        assert re.search(r"about \d+ (s|min) to wait", words)
        assert text_of(second, "talk-button") == "Leave the line"
        stop_call(second)
        wait_for_text(second, "status", "You left the line.")
        second.evaluate(TWICE)  # before the server has answered
        wait_for_text(second, "status", "You stopped before the talk began.")
        start_call(second, wait_connected=False)
        wait_for_text(second, "status", "You are number 1 in the line")
        stop_call(first)
        wait_for_text(first, "status", "You ended the talk")
        wait_for_text(second, "status", "It is your turn. Answer within 30 s.")
        assert text_of(second, "talk-button") == "Answer"
        wait_for_text(first, "status", "one line only")  # the slot is promised
        start_call(second)
        wait_for_text(second, "status", "Talking")
        assert text_of(second, "talk-button") == "Stop"


def test_stop_start_slider_and_error(microphone, probe) -> None:
    wav = microphone(speak(SENTENCE))
    with (
        served("--engine", "echo", script=PROBE, **probe.variables) as url,
        browser_page(url, wav) as page,
    ):
        for generation in (1, 2):
            start_call(page)
            wait_for_text(page, "status", "Talking")
            page.wait_for_timeout(1000)
            stop_call(page)
            wait_for_text(page, "status", "You ended the talk")
            wait_for_text(page, "status", "1 of 1 lines free")
            assert probe.sessions()[-1]["generation"] == generation
            assert page.locator(".toast-body:visible").count() == 0, "nothing lies over the button"
        start_call(page)
        wait_for_text(page, "status", "Talking")
        move_slider(page, "ta", "0.35")
        words = wait_for_text(page, "applied", "audio temperature 0.35")
        from_frame, temperature = probe.sessions()[-1]["applied"]
        assert from_frame > 0
        assert temperature == 0.35
        assert words.startswith(f"From frame {from_frame} ")
        probe.fail.touch()
        wait_for_text(page, "status", "The engine failed")
        probe.fail.unlink()
        wait_for_text(page, "status", "1 of 1 lines free")


def move_slider(page, element_id: str, value: str) -> None:
    """Types into the slider's number box; the fold opens first."""
    box = page.locator(f"#{element_id} input[type=number]")
    if not box.is_visible():
        page.get_by_text("Sampling (moves during the call)").click()
    box.fill(value)
    box.press("Tab")


def test_nothing_leaves_the_server_s_origin(microphone, echo_url) -> None:
    with browser_page(echo_url, microphone(speak("Hello."))) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda socket: asked.append(socket.url))
        page.reload()
        page.wait_for_selector("#call button", state="attached")
        start_call(page)
        wait_for_text(page, "status", "Talking")
        page.wait_for_timeout(2000)
        own = (echo_url, echo_url.replace("http", "ws", 1), "data:", "blob:")
        assert len(asked) > 10 and any(at.endswith("/talk/socket") for at in asked)
        assert [at for at in asked if not at.startswith(own)] == []
        assert "From frame 0" in text_of(page, "applied")


def test_the_loop_guard_is_told_once_and_can_be_forbidden(microphone, echo_url) -> None:
    looping = {"type": "guard", "number": 0, "reason": "repeats", "phrase": "<b>x</b>", "second": 2.0}
    told = {**looping, "action": "steadied", "sentence": "The persona keeps saying <b>x</b>."}
    with browser_page(echo_url, microphone(speak("Hello."))) as page:
        sent: list[str] = []
        page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
        page.reload()
        page.wait_for_selector("#call button", state="attached")
        start_call(page)
        wait_for_text(page, "status", "Talking")
        assert any('"ask"' in one and '"loop_guard":true' in one for one in sent)
        page.evaluate("(message) => window.personaplex.take(message)", told)
        assert text_of(page, "warning") == "The persona keeps saying <b>x</b>."
        page.evaluate("(message) => window.personaplex.take(message)", {**told, "number": 1, "action": "put_back"})
        assert text_of(page, "warning") == ""
        page.evaluate("(message) => window.personaplex.take(message)", told)  # once more, as after a resume
        assert text_of(page, "warning") == ""
        page.get_by_text("This talk's line").click()
        page.locator("#loop-guard").uncheck()
        while not any('"set"' in one and '"loop_guard":false' in one for one in sent):
            page.wait_for_timeout(50)
        stop_call(page)


def test_slower_than_real_time_is_said(microphone, probe) -> None:
    wav = microphone(speak(SENTENCE))
    slow = {**probe.variables, "PROBE_STEP_SECONDS": "0.12"}
    with served("--engine", "echo", script=PROBE, **slow) as url, browser_page(url, wav) as page:
        start_call(page)
        wait_for_text(page, "status", "slower than real time")
        assert probe.sessions()[-1]["counters"]["heard_dropped"] > 0
