"""A visitor's own personas stay in the browser: kept, renamed, copied, deleted; out to a file and in again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page, expect
from support.library_page import card, held, personas, show_sampling, told, wait_for_prompt, write_prompt

KEPT = "() => JSON.parse(localStorage.getItem('personaplex-personas') || '[]')"
PROMPT = "You enjoy having a good conversation. You are Ada, you keep bees on a roof in Porto."
FULL = """() => {
  window.setItem = Storage.prototype.setItem;
  Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };
}"""
NOT_FULL = "() => { Storage.prototype.setItem = window.setItem; }"
FORBIDDEN = """() => Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("no", "SecurityError"); } })"""
SIXTY = """async () => {
  const yours = await import(new URL("talk/static/yours.js", document.baseURI));
  const one = {title: "x", pitch: "y", prompt: "z", voice: "NATF0", ask: [], tags: [], sampling: {}};
  for (let count = 0; count < 60; count += 1) yours.keep(one);
}"""
BROKEN = """id: ada
title: Ada
pitch: Keeps bees.
voise: NATF1
prompt: You enjoy having a good conversation.
ask: [a, b, c]
"""


def _press(page: Page, name: str) -> None:
    page.locator("#chosen").get_by_role("button", name=name, exact=True).click()


def _keep(page: Page, title: str) -> None:
    page.locator("#naming-title").fill(title)
    page.keyboard.press("Enter")
    told(page, f"“{title}” is kept in this browser")


def _save_one(page: Page, title: str = "Ada") -> dict[str, Any]:
    """Writes a prompt, a seed and a temperature and saves them; returns what the boxes hold."""
    write_prompt(page, PROMPT)
    show_sampling(page)
    page.locator("#seed input, #seed textarea").fill("77")
    page.locator("#ta input[type=number]").fill("0.35")
    page.locator("#ta input[type=number]").press("Tab")
    page.wait_for_function("() => window.personaplex.values.audio_temperature === 0.35")
    _press(page, "Save as mine")
    _keep(page, title)
    return held(page)


def test_what_was_saved_is_there_after_a_reload_and_in_other_tabs(visit) -> None:
    page = visit()
    saved = _save_one(page)
    expect(card(page, "Ada")).to_have_attribute("aria-pressed", "true")
    page.reload()
    wait_for_prompt(page, personas(page)[0]["prompt"])
    card(page, "Ada").click()
    assert wait_for_prompt(page, "bees") == saved
    assert saved["seed"] == "77" and saved["audio_temperature"] == 0.35
    expect(page.locator(".chip").first).to_have_text("yours")
    other = visit(profile=page.context)
    _press(other, "Save as mine")
    _keep(other, "Eve")
    expect(card(page, "Eve")).to_be_visible()


def test_rename_duplicate_change_delete_and_back(visit) -> None:
    page = visit()
    _save_one(page)
    _press(page, "Rename")
    _keep(page, "Ada on the roof")
    _press(page, "Duplicate")
    assert page.locator("#naming-title").input_value() == "Ada on the roof, copy"
    _keep(page, "Eve")
    write_prompt(page, PROMPT.replace("Ada", "Eve"))
    _press(page, "Save changes")
    told(page, "Your changes are kept")
    assert [(one["title"], "Eve" in one["prompt"]) for one in page.evaluate(KEPT)] == [
        ("Ada on the roof", False),
        ("Eve", True),
    ]
    _press(page, "Delete")
    told(page, "“Eve” is deleted.")
    expect(card(page, "Eve")).to_have_count(0)
    assert "Eve" in held(page)["prompt"], "the boxes are left as they are"
    page.locator("#told button").click()
    expect(card(page, "Eve")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    _press(page, "Rename")
    page.keyboard.press("Escape")
    expect(page.locator("#naming")).to_be_hidden()
    assert page.evaluate("document.activeElement.textContent") == "Rename"


def test_a_full_or_forbidden_storage_is_a_sentence(visit) -> None:
    page = visit()
    page.evaluate("() => localStorage.setItem('personaplex-personas', '[1, {\"title\": 7}, null]')")
    for spoil, sentence in (
        (FULL, "This browser's storage is full."),
        (NOT_FULL, "is kept in this browser"),
        (SIXTY, "60 personas are kept at most."),
        (FORBIDDEN, "This browser lets this page store nothing."),
    ):
        with contextlib.suppress(Error):  # of what the script meets itself
            page.evaluate(spoil)
        _press(page, "Duplicate" if spoil in (SIXTY, FORBIDDEN) else "Save as mine")
        page.keyboard.press("Enter")
        told(page, sentence)
    expect(page.locator(".card").first).to_be_visible()


def test_a_file_goes_out_and_comes_in_the_same_and_a_broken_one_is_told(visit, tmp_path: Path) -> None:
    page = visit()
    saved = _save_one(page, 'Ada: bees & "roofs" # 1')
    with page.expect_download() as download:
        _press(page, "Export")
    told(page, "Saved as ada-bees-roofs-1.yaml.")
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    other = visit()
    other.locator("#import-file").set_input_files(file)
    told(other, "came in and is kept in this browser")
    assert {**wait_for_prompt(other, "bees"), "seed": "77"} == saved, "a file has no seed"
    (kept,) = other.evaluate(KEPT)
    assert kept["title"] == 'Ada: bees & "roofs" # 1' and kept["ask"] == personas(page)[0]["ask"]
    _assert_broken_files_are_told(other, tmp_path)


def _assert_broken_files_are_told(page: Page, tmp_path: Path) -> None:
    """With their line; nothing is changed by them, and the page goes on."""
    before, kept = held(page), page.evaluate(KEPT)
    file = tmp_path / "ada.yaml"
    for text, part in (
        (BROKEN, "ada.yaml, line 4"),
        ("a: [", "ada.yaml"),
        ("x" * 210_000, "larger than 200 kB"),
        ("", "ada.yaml"),
    ):
        file.write_text(text)
        page.locator("#import-file").set_input_files(file)
        told(page, part)
        expect(page.locator("#told")).to_have_class("bad")
    assert held(page) == before and page.evaluate(KEPT) == kept
    card(page, personas(page)[3]["title"]).click()
    wait_for_prompt(page, personas(page)[3]["prompt"])
