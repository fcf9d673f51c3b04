"""Persona links: one click copies one, a fresh profile opens the same persona; what is hostile is refused in words."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from playwright.sync_api import Page, expect
from support.injections import INJECTIONS
from support.library_page import (
    READY,
    asked_with,
    boxes_of,
    card,
    held,
    packed,
    personas,
    show_sampling,
    told,
    wait_for_prompt,
    write_prompt,
)

SAMPLING = {
    "audio_temperature": 0.43,
    "text_temperature": 0.9,
    "audio_top_k": 3000,
    "text_top_k": 0,
    "repetition_penalty": 1.15,
}
ADA: dict[str, Any] = {
    "v": 1,
    "title": "Ada 🐝",
    "pitch": "Keeps bees on a roof.",
    "prompt": "You enjoy having a good conversation.\nYou are Ada, and “honey” is your life.",
    "voice": "VARM3",
    "sampling": SAMPLING,
    "seed": "9223372036854775807",
    "ask": ["How are the bees?", "Do they sting?", "May I taste it?"],
}
CLIPBOARD = ["clipboard-read", "clipboard-write"]
NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
MADE_OF_THEM = """() => document.querySelectorAll(
  "#gallery :is(img, script, iframe, svg, style, form:not(#naming), a, object), [src*=evil], [href*=evil], " +
  "#about :is(img, script, iframe, svg, style, form, a, object)").length"""
COUNT_READ = """(() => {
  const read = ReadableStreamDefaultReader.prototype.read;
  window.unpacked = 0;
  ReadableStreamDefaultReader.prototype.read = async function (...rest) {
    const got = await read.apply(this, rest);
    window.unpacked += got.value?.length ?? 0;
    return got;
  };
})();"""
HOSTILE = {
    "nothing": ("", "damaged"),
    "no base64": ("<script>alert(1)</script>", "damaged"),
    "another parameter": (f"{packed(ADA)}&endpoint=https://evil.example", "damaged"),
    "junk": ("AAAA____", "damaged"),
    "no JSON": (packed(b"{"), "damaged"),
    "no UTF-8": (packed(b'"\xff\xfe"'), "damaged"),
    "no object": (packed([ADA]), "damaged"),
    "nothing in it": (packed(None), "damaged"),
    "too long": ("A" * 8000, "too long: 8,002 characters"),
    "a bomb": (packed(b" " * 5_000_000), "more than 20,000 characters"),
    "too much text": (packed({**ADA, "prompt": "a" * 20_000}), "more than 20,000 characters"),
    "an endpoint": (packed({**ADA, "endpoint": "https://evil.example"}), 'it holds "endpoint"'),
    "a token": (packed({**ADA, "token": "hf_x"}), 'it holds "token"'),
    "a prototype": (packed(json.dumps(ADA)[:-1].encode() + b', "__proto__": {}}'), 'it holds "__proto__"'),
    "another version": (packed({**ADA, "v": 2}), "another version"),
    "no title": (packed({key: value for key, value in ADA.items() if key != "title"}), "its title cannot be used"),
    "a prompt that is none": (packed({**ADA, "prompt": {"a": 1}}), "its prompt cannot be used"),
    "a number as seed": (packed({**ADA, "seed": 7}), "its seed cannot be used"),
    "a seed of words": (packed({**ADA, "seed": "javascript:alert(1)"}), "its seed cannot be used"),
    "sampling of others": (packed({**ADA, "sampling": {"url": 1}}), "its sampling cannot be used"),
    "sampling of texts": (packed({**ADA, "sampling": {"audio_top_k": "9"}}), "its sampling cannot be used"),
    "questions that are none": (packed({**ADA, "ask": "what?"}), "its ask cannot be used"),
    # What only the server can judge.
    "two questions": (packed({**ADA, "ask": ["a", "b"]}), "'ask' must hold 3 things"),
    "a path as voice": (packed({**ADA, "voice": "../../etc/passwd"}), "'voice' must be a name"),
    "too hot": (packed({**ADA, "sampling": {**SAMPLING, "audio_temperature": 99}}), "must be from 0 to 2"),
    "a long title": (packed({**ADA, "title": "x" * 81}), "at most 80"),
    "a hidden turn": (packed({**ADA, "title": "a\u202egnp.exe"}), "U+202E"),
}


def _open(page: Page, fragment: str) -> None:
    """A link into the page that is open already."""
    page.evaluate("(fragment) => { location.hash = fragment; }", f"p={fragment}")


def _copied(page: Page) -> SplitResult:
    """Presses Copy link; the link."""
    page.get_by_role("button", name="Copy link").click()
    told(page, "The link is copied.")
    return urlsplit(page.evaluate("navigator.clipboard.readText()"))


def _choose_all(page: Page) -> dict[str, Any]:
    """Sets every box by hand; what they hold."""
    write_prompt(page, ADA["prompt"])
    page.locator("#voice input").click()
    page.get_by_role("option", name="VARM3").click()
    show_sampling(page)
    for name, value in (("ta", "0.45"), ("tt", "0.9"), ("ka", "77"), ("kt", "0"), ("rp", "1.15")):
        page.locator(f"#{name} input[type=number]").fill(value)
        page.locator(f"#{name} input[type=number]").press("Tab")
    page.locator("#seed input, #seed textarea").fill("4711")
    page.wait_for_function("() => window.personaplex.values.seed === '4711'")
    return held(page)


def test_a_copied_link_gives_the_same_persona_to_a_fresh_profile(visit) -> None:
    page = visit(permissions=CLIPBOARD)
    chosen = personas(page)[4]
    card(page, chosen["title"]).click()
    wait_for_prompt(page, chosen["prompt"])
    link = _copied(page)
    assert (link.path, link.query, link.fragment) == ("/", f"persona={chosen['id']}", ""), "as it stands it has an id"
    second = visit(f"/?{link.query}", permissions=CLIPBOARD)
    assert held(second) == boxes_of(chosen)
    wanted = _choose_all(second)
    assert (wanted["voice"], wanted["audio_top_k"], wanted["repetition_penalty"]) == ("VARM3", 77, 1.15)
    link = _copied(second)
    assert link.path == "/" and link.query == "" and link.fragment.startswith("p=") and len(link.fragment) < 500
    third = visit(f"/#{link.fragment}")
    told(third, "came with the link: press Talk.")
    assert held(third) == wanted
    assert "#" not in third.url and third.evaluate("history.length") == 2, "and no new entry in the history"
    assert asked_with(third) == wanted
    third.reload()
    third.wait_for_selector(READY)
    assert held(third) == boxes_of(personas(third)[0]), "a reload does not bring the link back"


def test_a_link_that_others_made_brings_every_value_as_it_is(visit) -> None:
    page = visit(f"/#p={packed(ADA)}")
    told(page, "“Ada 🐝” came with the link")
    wanted = {"prompt": ADA["prompt"], "voice": "VARM3", **SAMPLING, "seed": ADA["seed"]}
    assert held(page) == wanted
    assert page.locator("#about-title").inner_text() == "Ada 🐝"
    assert page.locator("#ask li").all_inner_texts() == ADA["ask"]
    expect(page.locator("#about-edited")).to_be_hidden()
    expect(page.locator(".card[aria-pressed=true]")).to_have_count(0)
    assert asked_with(page) == wanted
    _open(page, packed({**ADA, "voice": "own-0123456789abcdef"}))
    told(page, "The voice own-0123456789abcdef is not here; NATF0 speaks instead.")


def test_what_makes_no_link_and_what_is_none_is_told(visit) -> None:
    page = visit(f"/?persona={quote('<img src=x>')}", begin=NO_CLIPBOARD)
    told(page, "names no persona")
    assert held(page) == boxes_of(personas(page)[0])
    page.get_by_role("button", name="Copy link").click()
    told(page, "copy the link from the box")
    assert page.locator("#link-box").input_value().endswith(f"/?persona={personas(page)[0]['id']}")
    words = " ".join(f"{number * 7919 % 100_003:x}" for number in range(3_000))
    write_prompt(page, f"You enjoy having a good conversation. {words}")
    page.wait_for_function("() => window.personaplex.values.prompt.length > 10000")
    page.get_by_role("button", name="Copy link").click()
    told(page, "too long for a link. Export it as a file instead.")


def test_hostile_links_are_refused_in_words_and_change_nothing(visit) -> None:
    page = visit(f"/#p={HOSTILE['an endpoint'][0]}", begin=COUNT_READ)
    told(page, 'it holds "endpoint"')
    before = held(page)
    assert before == boxes_of(personas(page)[0])
    for name, (fragment, sentence) in HOSTILE.items():
        page.evaluate("() => { document.getElementById('told').textContent = ''; window.unpacked = 0; }")
        _open(page, fragment)
        words = told(page, sentence)
        assert words.count("\n") == 0 and len(words) < 400, name
        assert page.evaluate("location.hash") == "", name
        assert page.evaluate("window.unpacked") < 200_000, f"{name}: it stops where too much comes out"
    assert held(page) == before
    assert page.evaluate("({}).endpoint") is None
    _open(page, packed(ADA))
    told(page, "came with the link")
    card(page, personas(page)[2]["title"]).click()
    wait_for_prompt(page, personas(page)[2]["prompt"])


def test_names_that_would_be_markup_are_shown_literally(visit) -> None:
    assert len(INJECTIONS) >= 40
    page = visit(begin=f"localStorage.setItem('personaplex-personas', {json.dumps(json.dumps(_kept()))});")
    for part in ("title", "pitch", "tags"):
        shown = page.locator(f".card .{part}").all_text_contents()[: len(INJECTIONS)]
        assert sorted(shown) == sorted(INJECTIONS), part
    page.get_by_role("button", name="more tags").click()
    assert set(INJECTIONS) <= set(page.locator(".chip").all_text_contents())
    page.locator(".card").first.click()
    told(page, "The voice own-x is not here")
    for number, text in enumerate(INJECTIONS):
        prompt = f"{number}. {text}"
        texts = {"title": text[:80], "pitch": text, "ask": [text, f"{text} 2", "c"], "prompt": prompt}
        _open(page, packed({**ADA, **texts}))
        assert wait_for_prompt(page, prompt)["prompt"] == prompt
        assert page.locator("#about-title").text_content() == text[:80]
        assert page.locator("#about-pitch").text_content() == text
        assert page.locator("#ask li").first.text_content() == text
        told(page, f"“{text[:80]}” came with the link")
    assert page.evaluate(MADE_OF_THEM) == 0


def _kept() -> list[dict[str, Any]]:
    return [
        {
            "id": f"{number:016x}",
            "title": text,
            "pitch": text,
            "prompt": text,
            "voice": "own-x",
            "seed": "",
            "author": text,
            "licence": text,
            "ask": [text] * 3,
            "tags": [text],
            "sampling": {},
        }
        for number, text in enumerate(INJECTIONS)
    ]
