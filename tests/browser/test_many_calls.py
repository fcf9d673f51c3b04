"""Calls that come and go, and visitors who vanish, leave the server as it was."""

from __future__ import annotations

from support.browser import browser_page, second_visitor, start_call, stop_call, wait_for_text
from support.served import served
from support.speech import speak

from .conftest import PROBE

CYCLES = 20
KILLED = 5
POOL_THREADS = 6  # the event loop's pool may still be growing to its size
FREE_AND_SHOWN_MS = 7_000  # a vanished peer's slot is free within 5 s; this page asks once a second


def test_twenty_calls_and_five_killed_visitors(microphone, probe) -> None:
    with (
        served("--engine", "echo", script=PROBE, **probe.variables) as url,
        browser_page(url, microphone(speak("Hello."))) as page,
    ):
        page.context.clear_cookies()  # a visitor of its own each time: one alone may not come so often
        _call(page)
        before = probe.everything()
        for _ in range(CYCLES - 1):
            _call(page)
        for _ in range(KILLED):
            visitor = second_visitor(page, url)
            start_call(visitor)
            wait_for_text(visitor, "status", "Talking")
            wait_for_text(page, "status", "one line only")
            visitor.context.close()
            wait_for_text(page, "status", "1 of 1 lines free", FREE_AND_SHOWN_MS)
        after = probe.everything()
    assert len(after["sessions"]) == CYCLES + KILLED
    assert after["peers"] <= before["peers"] + 1
    assert after["threads"] <= before["threads"] + POOL_THREADS


def _call(page) -> None:
    start_call(page)
    wait_for_text(page, "status", "Talking")
    stop_call(page)
    wait_for_text(page, "status", "1 of 1 lines free", FREE_AND_SHOWN_MS)
