"""The wire, shown by the echo engine in a real browser: what comes back is what was said, soon, and nothing leaks."""

from __future__ import annotations

import time

import numpy as np
import pytest
from support.browser import browser_page, collected, second_visitor, start_call, stop_call, text_of, wait_for_text
from support.served import served
from support.signals import best_correlation, clicks, latencies_ms
from support.speech import pause, speak

from .conftest import PROBE

SENTENCE = "Good morning, this is a test of the line, and every word of it should come back to me."
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


@pytest.mark.parametrize(("flags", "least"), [(("--plain-microphone",), 0.9), ((), 0.6)], ids=["plain", "defaults"])
def test_what_was_said_comes_back(microphone, flags, least) -> None:
    wav = microphone(np.concatenate([pause(0.3), speak(SENTENCE)]))
    with served("--engine", "echo", *flags) as url:
        found = []
        for _ in range(ATTEMPTS):
            found.append(best_correlation(*_talk(url, wav, 14)))
            if found[-1] > least:
                return
    pytest.fail(f"correlations {found}")


def test_mouth_to_ear(microphone) -> None:
    wav = microphone(clicks(7.0), 48_000)
    with served("--engine", "echo", "--plain-microphone") as url:
        measured = []
        for _ in range(ATTEMPTS):
            times = latencies_ms(*_talk(url, wav, 15))
            assert len(times) > 12
            measured.append((float(np.median(times)), float(np.percentile(times, 99))))
            if measured[-1][0] <= 200 and measured[-1][1] <= 280:
                return
    pytest.fail(f"p50, p99 in ms: {measured}")


def test_second_visitor_is_refused_in_words_and_admitted_later(microphone) -> None:
    wav = microphone(speak("Hello."))
    with served("--engine", "echo") as url, browser_page(url, wav) as first:
        start_call(first)
        wait_for_text(first, "status", "Talking")
        second = second_visitor(first, url)
        wait_for_text(second, "status", "one line only")  # before the click already
        waited = refusal_ms(second)
        assert waited <= 500, waited
        wait_for_text(second, "status", "one line only")
        stop_call(first)
        wait_for_text(first, "status", "You ended the talk")
        wait_for_text(second, "status", "lines free")
        second.evaluate("() => { window.__tap.states = []; }")
        start_call(second)
        wait_for_text(second, "status", "Talking")


def refusal_ms(page) -> float:
    """From the click to the words."""
    began = time.monotonic()
    start_call(page, wait_connected=False)
    page.get_by_text("Too many concurrent connections").first.wait_for(timeout=10_000)
    return 1000 * (time.monotonic() - began)


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
            wait_for_text(page, "status", "You ended the talk", 5_000)
            wait_for_text(page, "status", "1 of 1 lines free", 5_000)
            assert probe.sessions()[-1]["generation"] == generation
        start_call(page)
        wait_for_text(page, "status", "Talking")
        move_slider(page, "ta", "0.35")
        words = wait_for_text(page, "applied", "audio temperature 0.35")
        from_frame, temperature = probe.sessions()[-1]["applied"]
        assert from_frame > 0
        assert temperature == 0.35
        assert words.startswith(f"From frame {from_frame} ")
        probe.fail.touch()
        wait_for_text(page, "status", "The engine failed", 5_000)
        probe.fail.unlink()
        wait_for_text(page, "status", "1 of 1 lines free", 5_000)


def move_slider(page, element_id: str, value: str) -> None:
    """Types into the slider's number box; the fold opens first."""
    box = page.locator(f"#{element_id} input[type=number]")
    if not box.is_visible():
        page.get_by_text("Sampling (moves during the call)").click()
    box.fill(value)
    box.press("Tab")


def test_nothing_leaves_the_server_s_origin(microphone) -> None:
    with served("--engine", "echo") as url, browser_page(url, microphone(speak("Hello."))) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        page.wait_for_selector("#call button")
        start_call(page)
        wait_for_text(page, "status", "Talking")
        page.wait_for_timeout(2000)
        assert len(asked) > 10
        assert [at for at in asked if not at.startswith((url, "data:", "blob:"))] == []
        assert "From frame 0" in text_of(page, "applied")


def test_slower_than_real_time_is_said(microphone, probe) -> None:
    wav = microphone(speak(SENTENCE))
    slow = {**probe.variables, "PROBE_STEP_SECONDS": "0.12"}
    with served("--engine", "echo", script=PROBE, **slow) as url, browser_page(url, wav) as page:
        start_call(page)
        wait_for_text(page, "status", "slower than real time", 10_000)
        assert probe.sessions()[-1]["counters"]["heard_dropped"] > 0
