"""Calls that come and go, and visitors who vanish, leave the server as it was."""

from __future__ import annotations

from support.browser import browser_page, second_visitor, start_call, stop_call, wait_for_text
from support.served import served
from support.speech import speak

from .conftest import PROBE

CYCLES = 20
KILLED = 5
ALL_FREE = f"{KILLED} of {KILLED} lines free"
POOL_THREADS = 6  # the event loop's pool may still be growing to its size
FREE_AND_SHOWN_MS = 10_000  # a vanished peer's slot is free within 5 s, and this page asks every two


def test_twenty_calls_and_five_killed_visitors(microphone, probe) -> None:
    with (
        served("--engine", "echo", "--slots", str(KILLED), script=PROBE, **probe.variables) as url,
        browser_page(url, microphone(speak("Hello."))) as page,
    ):
        page.context.clear_cookies()  # a visitor of its own each time: one alone may not come so often
        _call(page)
        before = probe.everything()
        for _ in range(CYCLES - 1):
            _call(page)
        for _ in range(KILLED):  # a line each: the next one comes before the last one is known to be gone
            visitor = second_visitor(page, url)
            start_call(visitor)
            wait_for_text(visitor, "status", "Talking")
            visitor.context.close()
        wait_for_text(page, "status", ALL_FREE, FREE_AND_SHOWN_MS)
        page.wait_for_timeout(1000)  # connections close a moment after their slots are free
        after = probe.everything()
    assert len(after["sessions"]) == CYCLES + KILLED
    assert after["peers"] <= before["peers"] + 1
    assert after["threads"] <= before["threads"] + POOL_THREADS


def _call(page) -> None:
    start_call(page)
    wait_for_text(page, "status", "Talking")
    stop_call(page)
    wait_for_text(page, "status", ALL_FREE, FREE_AND_SHOWN_MS)
