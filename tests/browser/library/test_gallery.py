"""The gallery: a card fills the boxes that a talk is asked with, by mouse and by keyboard, on a page and a phone."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect
from support.library_page import (
    asked_with,
    boxes_of,
    card,
    held,
    personas,
    show_prompt,
    told,
    wait_for_prompt,
    write_prompt,
)

IN_SIGHT = """(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  return box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth && box.height > 40;
}"""
LIT = "() => getComputedStyle(document.activeElement).outlineStyle"


def test_a_card_fills_the_boxes_and_the_talk_is_asked_with_them(visit) -> None:
    page = visit()
    library = personas(page)
    assert len(library) >= 20
    expect(page.locator(".card")).to_have_count(len(library))
    assert page.locator(".card[aria-pressed=true] .title").inner_text() == library[0]["title"]
    assert held(page) == boxes_of(library[0]), "the page begins with the first"
    other = next(one for one in library if one["voice"] != library[0]["voice"])
    card(page, other["title"]).click()
    assert wait_for_prompt(page, other["prompt"]) == boxes_of(other)
    assert page.locator("#ask li").all_inner_texts() == other["ask"]
    assert page.locator("#about-title").inner_text() == other["title"]
    assert page.locator("#about-pitch").inner_text() == other["pitch"]
    assert page.locator(".card[aria-pressed=true] .title").all_inner_texts() == [other["title"]]
    assert asked_with(page) == boxes_of(other)
    page.evaluate("(place) => document.querySelectorAll('.card').forEach((one, at) => at <= place && one.click())", 9)
    assert wait_for_prompt(page, library[9]["prompt"]) == boxes_of(library[9]), "the last of many hasty clicks counts"
    page.wait_for_timeout(200)
    assert page.locator("#told").inner_text() == ""
    card(page, other["title"]).click()
    wait_for_prompt(page, other["prompt"])
    _assert_edits_are_put_aside_and_come_back(page, other)


def _assert_edits_are_put_aside_and_come_back(page: Page, chosen: dict[str, Any]) -> None:
    edited = f"{chosen['prompt']} You are also a lighthouse."
    write_prompt(page, edited)
    expect(page.locator("#about-edited")).to_be_visible()
    page.locator(".card[aria-pressed=false]").first.click()
    told(page, "Your changes were put aside.")
    expect(page.locator("#about-edited")).to_be_hidden()
    page.get_by_role("button", name="Bring them back").click()
    assert wait_for_prompt(page, "lighthouse") == {**boxes_of(chosen), "prompt": edited}
    expect(page.locator("#about-title")).to_have_text(chosen["title"])


def test_cards_tell_who_it_is_and_are_found_by_words_and_tags(visit) -> None:
    page = visit()
    library = personas(page)
    for persona in library[:3]:
        words = card(page, persona["title"]).inner_text()
        assert persona["pitch"] in words and f"by {persona['author']}" in words
        assert all(tag in words for tag in persona["tags"])
        expect(card(page, persona["title"]).locator(".start")).to_have_text(re.compile("^(ready|primes in .*)$"))
    page.locator("#search").fill("BANK harbour")
    expect(page.locator(".card:visible")).to_have_count(1)
    expect(page.locator("#found")).to_have_text(f"1 of {len(library)} personas")
    page.locator("#search").fill("nobody is called zyxw")
    expect(page.locator("#none-found")).to_be_visible()
    page.locator("#search").fill("")
    tag = page.locator(".chip").first.inner_text()
    page.locator(".chip").first.click()
    expect(page.locator(".card:visible")).to_have_count(sum(tag in one["tags"] for one in library))
    assert page.locator(".chip[aria-pressed=true]").inner_text() == tag
    page.locator(".chip[aria-pressed=true]").click()
    expect(page.locator(".card:visible")).to_have_count(len(library))
    page.get_by_role("button", name="more tags").click()
    assert page.locator(".chip").count() == len({tag for one in library for tag in one["tags"]}) + 1
    page.get_by_role("button", name="fewer tags").click()
    _assert_all_is_reached_and_chosen_by_keyboard(page, library)


def _assert_all_is_reached_and_chosen_by_keyboard(page: Page, library: list[dict[str, Any]]) -> None:
    show_prompt(page)
    page.locator("#search").focus()
    seen = [_tab(page) for _ in range(30)]
    for wanted in (
        "import",
        "Copy link",
        "Save as mine",
        "Export",
        "desk",
        "hear",
        "own",
        "talk-button",
        "check-button",
    ):
        assert any(wanted in one for one in seen), (wanted, seen)
    assert sum("card" in one for one in seen) == 1, "all cards are one stop"
    page.locator(".card[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    assert held(page) == boxes_of(library[0]), "arrows only move"
    assert page.evaluate(LIT) == "solid"
    page.keyboard.press("Enter")
    wait_for_prompt(page, library[1]["prompt"])
    page.keyboard.press("End")
    page.keyboard.press("Space")
    wait_for_prompt(page, library[-1]["prompt"])
    assert page.evaluate(IN_SIGHT, ".card[aria-pressed=true]")


def _tab(page: Page) -> str:
    """Goes on to the next stop; what it is."""
    page.keyboard.press("Tab")
    return str(
        page.evaluate(
            "() => { const at = document.activeElement;"
            "return [at.id, at.className, at.parentElement?.id, at.tagName === 'BUTTON' && at.textContent].join(' '); }"
        )
    )


def test_the_talk_button_stays_in_sight_and_nothing_sticks_out(visit) -> None:
    for width, options in ((1280, {}), (390, {"reduced_motion": "reduce", "color_scheme": "dark"})):
        page = visit(width=width, **options)
        for where in (0, 10_000):
            page.evaluate("(where) => scrollTo(0, where)", where)
            assert page.evaluate(IN_SIGHT, "#talk-button"), (width, where)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        cards = page.locator("#cards").evaluate("(box) => [box.scrollHeight, box.clientHeight]")
        assert cards[1] < 400 < cards[0], "many cards take no more room than few"
        small = page.evaluate(
            "() => [...document.querySelectorAll('#gallery button, #coach button, #voices button, #panel button')]"
            ".filter((one) => one.offsetParent && one.offsetHeight < 32).map((one) => one.textContent)"
        )
        assert small == []
    assert page.evaluate("document.getAnimations().length") == 0
