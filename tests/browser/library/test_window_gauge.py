"""The window's gauge beside a real model: what the prompt takes, what is left, when the oldest goes, that it did."""

from __future__ import annotations

import itertools
import re
from typing import Any

from playwright.sync_api import Page, expect
from support.browser import wait_for_text

from personaplex_app.web.call_view import standing

TOLD = """() => {
  window.__windows = [];
  const note = ({detail}) => detail.type === "talk" && window.__windows.push(detail);
  document.addEventListener("personaplex-message", note);
}"""
TELL = """async ([told, used]) => {
  const {tell} = await import(new URL("talk/static/gauge.js", document.baseURI));
  return tell(told, used);
}"""
SLIDES = {"positions": 3000, "prompt": 100, "kept": None, "renewals": 0}
RENEWS = {"positions": 512, "prompt": 60, "kept": 90, "renewals": 0}


def _told(page: Page, window: dict[str, Any], used: float) -> dict[str, Any]:
    told: dict[str, Any] = page.evaluate(TELL, [window, used])
    return told


def test_the_gauge_tells_what_the_prompt_takes_and_counts_down(visit) -> None:
    page = visit()
    page.evaluate(TOLD)
    page.locator("#talk-button").click()
    wait_for_text(page, "status", "Talking")
    expect(page.locator("#gauge")).to_be_visible()
    window = page.evaluate("() => window.__windows.at(-1).window")
    assert window["positions"] == 3000 and window["kept"] is None and window["renewals"] == 0
    assert 20 < window["prompt"] <= window["used"] < 1000
    full_at = round((3000 - window["prompt"]) * 0.08 - 0.5)
    words = page.locator("#gauge-words").inner_text()
    assert words.startswith(f"240 s, {round(window['prompt'] * 0.08)} s of them the prompt's. Full at ")
    minutes, seconds = re.findall(r"Full at (\d+):(\d\d)", words)[0]
    assert abs(60 * int(minutes) + int(seconds) - full_at) <= 1
    first = page.locator("#gauge-left").inner_text()
    assert re.fullmatch(r"3:[0-5]\d left|2:\d\d left", first)
    expect(page.locator("#gauge-left")).not_to_have_text(first)
    bar = page.locator("#gauge-bar")
    assert int(bar.get_attribute("aria-valuenow") or 0) >= round(100 * window["prompt"] / 3000)
    assert words in (bar.get_attribute("aria-valuetext") or "")
    page.wait_for_function("() => document.getElementById('talk-time').textContent >= '0:03'")
    views = [standing(view) for view in page.evaluate("() => window.__windows")]
    assert all(one != other for one, other in itertools.pairwise(views)), "no message for a frame alone"
    page.locator("#talk-button").click()
    _assert_each_end_of_a_window_is_told(page)


def _assert_each_end_of_a_window_is_told(page: Page) -> None:
    assert _told(page, SLIDES, 3000)["full"] is False
    full = _told(page, SLIDES, 3040)
    assert full["full"] and full["left"] == "full" and full["prompt"] == 60 / 3000
    assert full["words"].startswith("The persona now forgets the oldest seconds: its prompt goes first, 5 s of it")
    gone = _told(page, SLIDES, 3100)
    assert gone["prompt"] == 0 and gone["talk"] == 1
    assert gone["words"] == "The persona remembers the last 240 s, and its prompt no more."
    toy = _told(page, RENEWS, 312)
    assert toy["left"] == "0:16 left"
    assert toy["words"] == "By then it reads its prompt and the last 7 s anew, and forgets the rest."
    again = _told(page, {**RENEWS, "renewals": 2}, 185)
    assert again["words"] == "Read anew, 2 so far: the persona remembers its prompt and the last 10 s."
