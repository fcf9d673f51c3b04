"""The X-ray of a talk on the page: of a real talk, of one that is handed to it, and the echo guard's warning."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, expect
from support.browser import browser_page, start_call, stop_call, text_of, wait_for_text
from support.decisions import scripted
from support.speech import pause, speak

from personaplex_app.engine.echo_guard import HEADPHONES, OVER_NOW
from personaplex_app.records.transcript import Transcript
from personaplex_app.records.xray import xray

BELOW_BUTTON = """(id) => {
  const edge = (id, side) => document.getElementById(id).getBoundingClientRect()[side];
  return edge(id, 'top') >= edge('talk-button', 'bottom');
}"""
TAKE = "(message) => window.personaplex.take(message)"
COUNT = """() => document.addEventListener("personaplex-message", ({ detail }) => {
  if (detail.frames !== undefined) window.stepped = detail.frames;
})"""
SVG = "{http://www.w3.org/2000/svg}"


def made() -> dict[str, Any]:
    """Of a talk of 44 s: you, the persona, a listening sound of yours, an interruption by you; a leak."""
    transcript = Transcript()
    transcript.note("began", "echo", "", HEADPHONES, 300)
    you = " " * 10 + "#" * 40 + " " * 60 + "#" * 5 + " " * 85 + "#" * 30
    persona = " " * 55 + "#" * 155
    found = xray(scripted(you=you.ljust(550), persona=persona), transcript.remarks)
    assert found is not None
    return {"type": "xray", **found}


def saved(page: Page, button: str, folder: Path) -> str:
    """What a button saves."""
    with page.expect_download() as download:
        page.locator(button).click()
    download.value.save_as(folder / "saved")
    return (folder / "saved").read_text(encoding="utf-8")


def test_a_talk_ends_with_its_xray_and_the_next_one_begins_without(microphone, echo_url, tmp_path) -> None:
    sound = np.concatenate([speak("Good morning, this is a test of the line."), pause(1.5)])
    with browser_page(echo_url, microphone(sound)) as page:
        expect(page.locator("#xray")).to_be_hidden()
        page.evaluate(COUNT)
        start_call(page)
        wait_for_text(page, "status", "Talking")
        leak = {"type": "echo", "number": 0, "lag_ms": 300, "level_db": -20, "second": 1.0}
        page.evaluate(TAKE, {**leak, "action": "began", "sentence": HEADPHONES})
        assert HEADPHONES in text_of(page, "warning")
        page.evaluate(TAKE, {**leak, "number": 1, "action": "over", "sentence": OVER_NOW})
        assert text_of(page, "warning") == ""
        page.wait_for_function("() => window.stepped >= 70", timeout=60_000)  # 5 s are the shortest that have one
        expect(page.locator("#xray")).to_be_hidden()
        stop_call(page)
        expect(page.locator("#xray")).to_be_visible(timeout=10_000)
        assert text_of(page, "xray-summary").startswith("You talked for ")
        found = json.loads(saved(page, "#xray-save-figures", tmp_path))
        assert found["seconds"] >= 5 and found["figures"]["you"]["talk_seconds"] > 1
        bars = page.locator("#xray-picture rect.you")
        assert bars.count() >= len(found["segments"]["you"]) > 0
        start_call(page)
        expect(page.locator("#xray")).to_be_hidden()
        stop_call(page)


def test_the_picture_and_the_words_are_the_figures(microphone, echo_url, tmp_path) -> None:
    with browser_page(echo_url, microphone(speak("Hello.")), 390, 844) as page:
        message = made()
        page.evaluate(TAKE, message)
        expect(page.locator("#xray")).to_be_visible()
        said = page.locator("#xray-summary li").all_inner_texts()
        assert said[0] == "You talked for 6 s, the persona for 12.4 s: 33 % of the talking was yours."
        assert said[1].startswith("Answers of the persona: 1; usually after 0.4 s, nine of ten within 0.4 s, ")
        assert said[2] == "Interruptions by you: 1; the persona gave way in 1 of them."
        assert said[3] == "The persona did not interrupt you."
        assert said[4] == "Both spoke at once for 1.2 s; nobody spoke for 26.8 s, 25.6 s at a stretch."
        assert said[5].startswith("The persona heard itself")
        picture = page.get_by_role("img", name="Who spoke when: you above, the persona below.")
        expect(picture).to_be_visible()
        marks = picture.locator("polygon title").all_text_contents()
        assert marks == ["0:16 You interrupt; the persona gives way.", "0:24 The persona begins to hear itself."]
        page.locator("#xray summary").click()
        row = page.locator("#xray-figures tr").filter(has_text="Listening sounds")
        assert row.locator("td").all_inner_texts() == ["1", "0"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "a phone scrolls down only"
        drawn = ElementTree.fromstring(saved(page, "#xray-save-picture", tmp_path))
        assert drawn.tag == f"{SVG}svg" and drawn.find(f"{SVG}style") is not None
        assert len(drawn.findall(f"{SVG}rect[@class='you']")) == 3
        page.evaluate(TAKE, {**message, "marks": [{"second": 1, "kind": "guard", "action": "<b>x</b>", "reason": "y"}]})
        assert picture.locator("polygon.guard").count() == 1
        page.evaluate(TAKE, {"type": "xray", **xray(scripted(you=" " * 90, persona=" " * 90), [])})
        assert page.locator("#xray-summary li").all_inner_texts() == ["Nobody spoke in this talk."]
        page.set_viewport_size({"width": 1200, "height": 700})
        for part in ("about", "keep", "xray"):
            page.locator(f"#{part}").evaluate("(part) => part.scrollIntoView()")
            assert page.evaluate(BELOW_BUTTON, part), f"{part} is hidden by the button"
        page.locator("#xray-close").click()
        expect(page.locator("#xray")).to_be_hidden()
        assert page.evaluate("document.activeElement.id") == "talk-button"
