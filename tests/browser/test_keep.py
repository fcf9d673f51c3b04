"""What is kept of a talk, on the page: nothing unasked; with consent both sides' sound; gone when it is deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from playwright.sync_api import Page
from support.browser import browser_page, start_call, stop_call, text_of, wait_for_text
from support.signals import best_correlation
from support.speech import speak

from personaplex_app.records.captions import SYNTHETIC, cues_of, srt, vtt
from personaplex_app.records.turns import Turn

SENTENCE = "Good morning, this is a test of the line, and every word of it should come back to me."
KEPT = "() => fetch('recordings').then((answer) => answer.json()).then(({ recordings }) => recordings)"
SAID = [
    {"number": 0, "who": "persona", "text": "Thank you for <i>calling</i>.", "start": 0.4, "end": 2.0},
    {"number": 0, "who": "you", "text": "", "start": 2.4, "end": 4.96},
    {"number": 1, "who": "persona", "text": "word " * 40 + "-->", "start": 5.2, "end": None},
]
GUARD = {
    "number": 0,
    "action": "noticed",
    "reason": "repeats",
    "phrase": "x",
    "second": 4.0,
    "sentence": "It says <b>x</b>.",
}
ECHO = {"type": "echo", "number": 0, "action": "began", "second": 7.2, "sentence": "It hears itself."}


def kept(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(KEPT)
    return found


def loaded(page: Page, name: str, folder: Path) -> Path:
    """A download, by the name of what is pressed."""
    with page.expect_download() as download:
        page.locator("#keep").get_by_text(name, exact=False).first.click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def take(page: Page, **message: Any) -> None:
    page.evaluate("(message) => window.personaplex.line.onMessage(message)", message)


def test_a_talk_is_recorded_with_consent_loaded_and_deleted(microphone, plain_url, tmp_path) -> None:
    with browser_page(plain_url, microphone(speak(SENTENCE))) as page:
        consent = page.locator("#keep-consent")
        consent.wait_for()
        assert not consent.is_checked(), "never by itself"
        start_call(page)
        wait_for_text(page, "status", "Talking")
        assert kept(page) == [] and page.locator("#keep-live").is_hidden()
        consent.check()
        page.locator("#keep-live").wait_for()
        assert "Recording" in text_of(page, "keep-live")
        (one,) = kept(page)
        page.wait_for_function("() => document.getElementById('keep-length').textContent >= '0:09'", timeout=60_000)
        wait_for_text(page, "transcript", "You", 20_000)  # spoke
        stop_call(page)
        wait_for_text(page, "status", "You ended the talk")
        page.locator("#keep-live").wait_for(state="hidden")
        wait_for_text(page, "keep-list", "kept for another 60 min")
        assert consent.is_checked(), "until it is unticked"

        page.evaluate("() => { document.querySelector('#keep-list li').id = 'pressed'; }")
        with page.expect_response("**/recordings"):
            page.evaluate("() => document.dispatchEvent(new CustomEvent('personaplex-state', {detail: 'idle'}))")
        page.wait_for_timeout(100)
        assert page.locator("#pressed").count() == 1, "what may be pressed just now is not made anew"

        sound, rate = soundfile.read(loaded(page, "WAV (", tmp_path), dtype="float32", always_2d=True)
        left, right = np.ascontiguousarray(sound.T)
        assert rate == 24_000 and len(sound) / rate > 8
        assert best_correlation(left, right, rate) > 0.9, "what was heard stands beside its echo"
        assert SYNTHETIC in loaded(page, "VTT", tmp_path).read_text(encoding="utf-8")
        talk = json.loads(loaded(page, "JSON", tmp_path).read_text(encoding="utf-8"))
        assert talk["synthetic"] and talk["model"]["name"] == "echo"
        assert any(turn["who"] == "you" for turn in talk["turns"])

        page.locator("#keep-list").get_by_role("button", name="Delete").click()
        wait_for_text(page, "keep-told", "is deleted")
        assert kept(page) == [] and page.locator("#keep-list li").count() == 0
        assert page.evaluate("(id) => fetch(`recordings/${id}.wav`).then((answer) => answer.status)", one["id"]) == 404

        start_call(page)
        page.locator("#keep-live").wait_for()
        (other,) = kept(page)
        assert other["on"] and other["id"] != one["id"], "the consent holds: another talk, another recording"
        consent.uncheck()
        page.locator("#keep-live").wait_for(state="hidden")
        wait_for_text(page, "keep-told", "The recording has ended.")
        page.locator("#keep-list").get_by_role("button", name="Delete").click()
        wait_for_text(page, "keep-told", "is deleted")
        assert kept(page) == [] and "Talking" in text_of(page, "status")


def test_the_words_alone_are_written_by_the_browser_as_the_server_would(microphone, echo_url, tmp_path) -> None:
    with browser_page(echo_url, microphone(speak("Hello."))) as page:
        page.locator("#keep-consent").wait_for()
        page.evaluate("() => window.personaplex.become('talking')")
        for message in (SAID[2], SAID[0], SAID[1]):
            take(page, type="said", **message)
        take(page, type="guard", **GUARD)
        lines = page.locator("#transcript .said-line")
        assert lines.all_inner_texts()[:2] == ["0:00 Persona Thank you for <i>calling</i>.", "0:02 You spoke, 3 s"]
        take(page, **ECHO)
        assert lines.nth(2).inner_text() == "0:04 It says <b>x</b>." and lines.count() == 5
        assert lines.nth(4).inner_text() == "0:07 It hears itself."
        assert "nothing here writes down" in lines.nth(1).get_attribute("title")
        take(page, type="said", **{**SAID[2], "text": "word " * 200})
        top = "document.getElementById('transcript').scrollTop"
        assert page.evaluate(f"() => {top}") > 0, "who reads along sees the newest"
        page.evaluate(f"() => {{ {top} = 0; }}")
        take(page, type="said", **{**SAID[2], "text": "word " * 210})
        assert page.evaluate(f"() => {top}") == 0, "who reads what was said before is left alone"
        take(page, type="said", **SAID[2])

        turns = [Turn(one["who"], one["number"], one["text"].strip(), one["start"], one["end"]) for one in SAID]
        cues = cues_of(turns, 6.2)
        assert loaded(page, "SRT", tmp_path).read_text(encoding="utf-8") == srt(cues)
        assert loaded(page, "VTT", tmp_path).read_text(encoding="utf-8") == vtt(cues)
        text = loaded(page, "TXT", tmp_path).read_text(encoding="utf-8")
        assert (
            text.startswith(SYNTHETIC) and "0:00 Persona: Thank you for <i>calling</i>.\n0:02 (You spoke, 3 s)" in text
        )
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("#copy-transcript").click()
        wait_for_text(page, "copy-transcript", "Copied")
        copied = page.evaluate("() => navigator.clipboard.readText()")
        assert copied.startswith(
            "0:00 Persona: Thank you for <i>calling</i>.\n0:02 (You spoke, 3 s)\n0:04 (It says <b>x</b>.)"
        )
        talk = json.loads(loaded(page, "JSON", tmp_path).read_text(encoding="utf-8"))
        assert talk["synthetic"] and [turn["start"] for turn in talk["turns"]] == [0.4, 2.4, 5.2]
        assert [remark["sentence"] for remark in talk["remarks"]] == [GUARD["sentence"], ECHO["sentence"]]
        assert kept(page) == []
