"""Voices on the page: heard, used, and one's own from the microphone or a file, with consent, and deleted again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from playwright.sync_api import Page, expect
from support.library_page import asked_with, held, show_prompt, unpacked

OWN = "async () => (await (await fetch('voices/own')).json()).voices"


def _open_own(page: Page) -> None:
    show_prompt(page)
    page.get_by_text("Your own voice", exact=True).click()
    expect(page.locator("#consent")).to_be_visible()


def _own_told(page: Page, part: str) -> None:
    expect(page.locator("#own-told")).to_contain_text(part, timeout=20_000)


def test_the_voices_stand_by_gender_and_style_and_can_be_heard(visit) -> None:
    page = visit()
    show_prompt(page)
    page.get_by_text("Hear the voices").click()
    expect(page.locator("#hear-list .voice")).to_have_count(18)
    groups = page.locator("#hear-list > div > strong").all_inner_texts()
    assert groups == ["Female, natural", "Male, natural", "Female, varied", "Male, varied"]
    listen = page.get_by_role("button", name="Listen to NATM2")
    listen.click()
    expect(listen).to_have_text("Stop", timeout=20_000)
    listen.click()
    expect(listen).to_have_text("Listen")
    page.get_by_role("button", name="Use NATM2").click()
    page.wait_for_function("() => window.personaplex.values.voice === 'NATM2'")
    expect(page.get_by_role("button", name="Use NATM2")).to_have_attribute("aria-pressed", "true")
    assert asked_with(page)["voice"] == "NATM2"


def test_what_has_to_be_said_of_previews_is_said(visit) -> None:
    page = visit()
    voices = [
        {"name": "TINY0", "style": "", "gender": "", "preview": "voices/preview/TINY0.wav", "note": "This is noise."},
        {"name": "NATF0", "style": "natural", "gender": "female", "preview": None, "note": "This is noise."},
    ]
    page.route("**/voices/previews", lambda route: route.fulfill(json={"voices": voices}))
    page.route("**/voices/preview/*", lambda route: route.fulfill(status=422, json={"error": "It cannot be read."}))
    show_prompt(page)
    page.get_by_text("Hear the voices").click()
    expect(page.locator("#hear-told")).to_have_text("This is noise.")
    expect(page.get_by_role("button", name="Listen to NATF0")).to_be_disabled()
    page.get_by_role("button", name="Listen to TINY0").click()
    expect(page.locator("#hear-told")).to_have_text("It cannot be read.")
    expect(page.get_by_role("button", name="Listen to TINY0")).to_have_text("Listen")


def test_a_recording_becomes_a_voice_of_one_s_own_and_goes_again(visit) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    _open_own(page)
    page.locator("#record").click()
    _own_told(page, "tick the statement first")
    assert page.evaluate("document.activeElement.id") == "consent"
    page.keyboard.press("Space")
    page.locator("#record").click()
    expect(page.locator("#recorded")).to_contain_text("more at least")
    page.wait_for_function("() => Number(document.getElementById('level').getAttribute('aria-valuenow')) > 40")
    page.locator("#record").click()
    _own_told(page, "3 are the least")
    page.locator("#record").click()
    expect(page.locator("#recorded")).to_contain_text("s left", timeout=10_000)
    page.wait_for_timeout(1_000)
    page.locator("#record").click()
    expect(page.locator("#clip-sound")).to_be_visible()
    page.locator("#send-clip").click()
    _own_told(page, "and in use")
    (own,) = page.evaluate(OWN)
    assert 3 <= own["seconds"] <= 6
    assert held(page)["voice"] == own["voice"]
    assert asked_with(page)["voice"] == own["voice"]
    page.locator("#voice input").click()
    assert "your own" in page.get_by_role("option").first.inner_text()
    page.keyboard.press("Escape")
    _assert_it_leaves_in_no_link_and_no_file(page)
    page.reload()
    page.wait_for_selector("html[data-library=ready]")
    _open_own(page)
    page.get_by_role("button", name=f"Use {own['voice']}").click()
    page.wait_for_function("(name) => window.personaplex.values.voice === name", arg=own["voice"])
    page.get_by_role("button", name=f"Delete {own['voice']}").click()
    _own_told(page, "is deleted")
    page.wait_for_function("() => window.personaplex.values.voice === 'NATF0'")
    assert page.evaluate(OWN) == []


def _assert_it_leaves_in_no_link_and_no_file(page: Page) -> None:
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#told")).to_contain_text("Your own voice stays here: it names NATF0 instead.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert unpacked(link.split("#p=")[1])["voice"] == "NATF0"
    with page.expect_download() as download:
        page.get_by_role("button", name="Export", exact=True).click()
    file = Path(download.value.path()).read_text(encoding="utf-8")
    assert "voice: NATF0" in file and "own-" not in file


def test_a_file_becomes_a_voice_or_is_refused_in_words(visit, tmp_path: Path) -> None:
    page = visit()
    _open_own(page)
    page.locator("#choose-clip").click()
    _own_told(page, "tick the statement first")
    page.locator("#consent").check()
    silence, junk = tmp_path / "silence.wav", tmp_path / "<img src=x>.mp3"
    soundfile.write(silence, np.zeros(24_000 * 5, dtype=np.float32), 24_000)
    junk.write_bytes(b"no sound at all" * 100)
    for file in (silence, junk):
        page.locator("#clip-file").set_input_files(file)
        _own_told(page, f"{file.name}: listen to it")
        page.locator("#send-clip").click()
        expect(page.locator("#own-told")).to_have_class("bad", timeout=20_000)
        assert 20 < len(page.locator("#own-told").inner_text()) < 300
    assert page.evaluate(OWN) == []
    page.locator("#drop-clip").click()
    expect(page.locator("#clip")).to_be_hidden()
