"""Start over on the page: the same connection, another talk with what the boxes hold, and too much of it is said."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page
from support.browser import browser_page, start_call, stop_call, text_of, wait_for_text
from support.speech import speak

PRESS = "() => document.getElementById('start-over-button').click()"
FILL = "boxes => import(new URL('talk/static/fields.js', document.baseURI)).then(({ fill }) => fill(boxes))"
HOLDS = "seed => window.personaplex.values.seed === seed"
TOLD = (
    "() => { window.told = []; document.addEventListener('personaplex-message', (event) => told.push(event.detail)); }"
)
BEGUN = "count => told.filter((message) => message.type === 'started_over').length === count"


def _begin_anew(page: Page, count: int, seed: str) -> None:
    page.evaluate("seed => { window.personaplex.values = {...window.personaplex.values, seed}; }", seed)
    page.evaluate(PRESS)
    page.wait_for_function(BEGUN, arg=count, timeout=10_000)
    wait_for_text(page, "applied", f"seed {seed}.", 10_000)
    wait_for_text(page, "status", "Talking", 10_000)


def test_a_visitor_starts_over_by_webrtc_and_by_the_socket(echo_url: str, microphone: Any) -> None:
    with browser_page(echo_url, microphone(speak("Hello, is anybody there?"))) as page:
        page.evaluate(TOLD)
        start_call(page)
        wait_for_text(page, "status", "Talking")
        grant = page.evaluate("() => window.personaplex.grant")
        page.evaluate(
            "() => window.personaplex.transcript.said({who: 'persona', number: 0, text: 'Old', start: 0, end: 1})"
        )
        assert "Old" in text_of(page, "transcript")
        page.evaluate(FILL, {"seed": "7777"})
        page.wait_for_function(HOLDS, arg="7777", timeout=10_000)
        page.evaluate(PRESS)
        wait_for_text(page, "applied", "seed 7777.", 10_000)
        wait_for_text(page, "status", "Talking", 10_000)
        assert "Old" not in text_of(page, "transcript")
        assert page.evaluate("() => window.personaplex.grant") not in ("", grant)
        assert page.evaluate("() => [window.__tap.peers.length, window.__tap.peers[0].connectionState]") == [
            1,
            "connected",
        ]

        page.evaluate("() => { document.getElementById('use-socket').click(); }")
        wait_for_text(page, "status", "Over the socket. Talking.", 15_000)
        for count in (2, 3, 4, 5):
            _begin_anew(page, count, str(count))
        assert page.evaluate("() => window.personaplex.path") == "socket"
        page.evaluate(PRESS)
        wait_for_text(page, "status", "Too many starts in a short time", 10_000)
        page.evaluate("() => { told.length = 0; window.personaplex.line.send({type: 'ping', at: 1}); }")
        page.wait_for_function("() => told.some((message) => message.type === 'pong')")
        assert page.evaluate("() => window.personaplex.state") == "talking"
        stop_call(page)
        wait_for_text(page, "status", "You ended the talk")
