"""The health strip while a talk runs: all is well, a slow model is the server's fault and never the network's, a mute
nobody's; figures on request, and no chatter for those who hear the page."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page
from support.browser import browser_page, start_call, stop_call, text_of, wait_for_text
from support.served import served
from support.speech import speak

from .conftest import PROBE

pytestmark = pytest.mark.timed  # a machine that others load is a line that stutters

WATCH = """() => {
  const strip = document.getElementById('health');
  window.told = {who: [], spoken: []};
  const note = (list, word) => word && list.at(-1) !== word && list.push(word);
  new MutationObserver(() => {
    note(told.who, strip.dataset.who);
    note(told.spoken, document.getElementById('health-told').textContent);
  }).observe(document.getElementById('panel'), {subtree: true, childList: true, characterData: true, attributes: true});
}"""
LOOKS_MS = 30_000


def _wait_for(page: Page, who: str) -> None:
    page.wait_for_function("who => document.getElementById('health').dataset.who === who", arg=who, timeout=LOOKS_MS)


def _figure(page: Page, name: str, part: str) -> str:
    return wait_for_text(page, f"health-{name}", part, LOOKS_MS)


def test_all_is_well_by_both_ways_and_the_figures_are_there(echo_url: str, microphone: Any) -> None:
    with browser_page(echo_url, microphone(speak("Hello, is anybody there?"))) as page:
        page.evaluate(WATCH)
        assert page.locator("#health").is_hidden()
        start_call(page)
        wait_for_text(page, "status", "Talking")
        _wait_for(page, "well")
        assert page.locator("#health-verdict").inner_text() == "All is well."
        assert not page.locator("#health-figures").is_visible(), "folded to its sentence"
        page.locator("#health summary").click()
        page.wait_for_function("() => document.getElementById('health-figures').checkVisibility()")
        assert "ms of 80" in text_of(page, "health-step") and "% of yours" in text_of(page, "health-lost")
        assert _figure(page, "model", "echo") == "echo"
        wait_for_text(page, "path", "direct (WebRTC)")

        page.evaluate("() => window.personaplex.mute(true)")
        page.evaluate("() => document.getElementById('use-socket').click()")
        _figure(page, "lost", "sends again")
        wait_for_text(page, "path", "the socket")
        _wait_for(page, "well")
        page.wait_for_timeout(3000)
        assert set(page.evaluate("() => told.who")) == {"well"}, "a mute is nobody's fault"
        assert page.evaluate("() => told.spoken") == [], "nothing was read aloud"
        stop_call(page)
        wait_for_text(page, "status", "You ended the talk")
        assert page.locator("#health").is_hidden()


def test_a_slow_model_is_the_server_s_fault_and_never_the_network_s(microphone: Any) -> None:
    with (
        served("--engine", "echo", script=PROBE, PROBE_STEP_SECONDS="0.12") as url,
        browser_page(url, microphone(speak("Hello, is anybody there?"))) as page,
    ):
        page.evaluate(WATCH)
        start_call(page)
        wait_for_text(page, "status", "Talking")
        _wait_for(page, "gpu")
        sentence = wait_for_text(page, "health-verdict", "slower than real time: 1")
        assert "network" not in sentence
        page.wait_for_timeout(2000)
        page.evaluate("() => document.getElementById('use-socket').click()")
        _figure(page, "lost", "sends again")
        page.wait_for_timeout(3000)
        assert set(page.evaluate("() => told.who")) == {"gpu"}
        assert len(page.evaluate("() => told.spoken")) == 1, "told once, whatever the figures do"
        stop_call(page)
