"""The talk's bar in a real browser: who speaks, mute on both ways of the sound, presets, seed, microphone, reach."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from support.browser import browser_page, start_call, stop_call, text_of, wait_for_text
from support.contrast import TOO_PALE
from support.library_page import READY, held, show_sampling
from support.speech import pause, speak

PATIENCE_MS = 15_000
HEARD = """(seconds) => {
  const tail = window.__tap.heard.slice(-Math.ceil(seconds * window.__tap.rate / 4096));
  return Math.max(0, ...tail.map((piece) => piece.reduce((most, one) => Math.max(most, Math.abs(one)), 0)));
}"""
NOTE_SENT = """() => {
  const {line} = window.personaplex;
  const send = line.sendSound.bind(line);
  window.__sent = [];
  line.sendSound = (sound) => {
    window.__sent.push(new Int16Array(sound.slice(0)).reduce((most, one) => Math.max(most, Math.abs(one)), 0));
    send(sound);
  };
}"""
SENT_SILENCE = "(count) => window.__sent.length > count && window.__sent.every((loudest) => loudest === 0)"
SENT_SPEECH = "() => window.__sent.some((loudest) => loudest > 500)"
LEVEL = "(who) => document.querySelector(`#${who}-meter i`).getBoundingClientRect().width"
CUT = "() => { window.__sent = []; window.personaplex.line.socket.close(); }"
PLACE = (
    "() => { const at = document.getElementById('talk-button').getBoundingClientRect(); return [at.top, at.bottom]; }"
)
LIT = "() => getComputedStyle(document.activeElement).outlineStyle"
LONG_WORD = {"who": "persona", "number": 99, "text": "W" * 99, "start": 9, "end": 10}

UNDER_DOCK = """() => {
  const [at, dock] = [document.activeElement, document.getElementById('dock')];
  const hidden = at.getBoundingClientRect().top >= dock.getBoundingClientRect().top;
  return hidden && !dock.contains(at) ? at.id || at.className || at.tagName : "";
}"""


@pytest.fixture
def page(microphone: Any, echo_url: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Whoever it is speaks nearly all the time; the test says how wide the page is."""
    wav = microphone(np.concatenate([speak("Hello, is anybody there? I would like to ask something."), pause(0.3)]))
    with browser_page(echo_url, wav, width=getattr(request, "param", 1200)) as opened:
        opened.wait_for_selector(READY)
        opened.set_default_timeout(PATIENCE_MS)
        yield opened


def _says(page: Page, who: str, words: str) -> None:
    """Waits until a meter's words for screen readers are these."""
    expect(page.locator(f"#{who}-meter")).to_have_attribute("aria-valuetext", words, timeout=PATIENCE_MS)


def _moves(page: Page, who: str) -> None:
    page.wait_for_function(f"(who) => ({LEVEL})(who) > 20", arg=who)


def test_meters_and_mute_follow_the_sound_on_both_ways_of_it(page: Page) -> None:
    expect(page.locator("#talk-bar")).to_be_hidden()
    page.locator(".card").nth(1).click()
    start_call(page)  # the second click
    _says(page, "you", "You speak")
    _says(page, "persona", "The persona speaks")
    _moves(page, "you"), _moves(page, "persona")
    page.wait_for_function("() => document.getElementById('talk-time').textContent >= '0:02'")

    page.locator("#search").press("m")
    assert page.locator("#mute-button").get_attribute("aria-pressed") == "false", "who writes does not mute"
    page.locator("#talk-button").focus()
    page.keyboard.press("m")
    expect(page.locator("#mute-button")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#mute-button")).to_have_text("Unmute")
    assert text_of(page, "you-says") == "muted"
    page.wait_for_function(f"() => ({HEARD})(1) < 0.001")
    _says(page, "you", "You are muted")
    _says(page, "persona", "The persona is quiet")
    page.wait_for_function(f"() => ({LEVEL})('you') < 2 && ({LEVEL})('persona') < 2")

    page.evaluate(NOTE_SENT)
    page.evaluate("() => document.getElementById('use-socket').click()")
    wait_for_text(page, "path", "the socket")
    page.wait_for_function(SENT_SILENCE, arg=30)
    page.evaluate(CUT)
    wait_for_text(page, "status", "Going back to your talk", 5_000)
    wait_for_text(page, "status", "Over the socket. Talking", PATIENCE_MS)
    page.wait_for_function(SENT_SILENCE, arg=200)  # four seconds: who is silent is not lost
    assert page.evaluate("() => window.personaplex.report.level") < 0.001
    assert page.locator("#mute-button").get_attribute("aria-pressed") == "true"

    page.locator("#mute-button").click()
    page.wait_for_function(SENT_SPEECH)
    _says(page, "you", "You speak")
    _says(page, "persona", "The persona speaks")
    _moves(page, "you"), _moves(page, "persona")
    stop_call(page)
    expect(page.locator("#talk-bar")).to_be_hidden()


def _pressed(page: Page) -> list[str]:
    return page.locator("#presets [aria-pressed=true]").all_inner_texts()


def _seed(page: Page) -> str:
    """Of the talk that runs, as the server tells it in words."""
    found = re.search(r"seed (\d+)", wait_for_text(page, "applied", "seed"))
    assert found
    return found[1]


def test_presets_fill_the_boxes_a_seed_is_locked_and_all_of_it_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    show_sampling(page)
    expect(page.get_by_role("button", name="Natural")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Steady").click()
    page.wait_for_function("() => window.personaplex.values.repetition_penalty === 1.1")
    assert (held(page)["audio_temperature"], held(page)["text_temperature"]) == (0.7, 0.7)
    assert _pressed(page) == ["Steady"]
    page.locator("#ta input[type=number]").fill("0.75")
    page.locator("#ta input[type=number]").press("Tab")
    page.wait_for_function("() => window.personaplex.values.audio_temperature === 0.75")
    assert _pressed(page) == []

    start_call(page)
    wait_for_text(page, "applied", "audio temperature 0.75")
    page.get_by_role("button", name="Lively").click()
    wait_for_text(page, "applied", "audio temperature 0.95, text temperature 0.9")
    assert _pressed(page) == ["Lively"]
    first = _seed(page)
    page.locator("#lock-seed").check()
    page.wait_for_function("(seed) => window.personaplex.values.seed === seed", arg=first)
    _assert_settings_are_copied(page, first)
    stop_call(page)
    wait_for_text(page, "status", "1 of 1 lines free")
    page.locator(".card").nth(2).click()
    start_call(page)  # at once: the card may have emptied the box by now
    wait_for_text(page, "status", "Talking")
    assert _seed(page) == first, "another persona, the same seed"
    page.locator("#lock-seed").uncheck()
    page.wait_for_function("() => window.personaplex.values.seed === ''")
    stop_call(page)
    start_call(page)
    wait_for_text(page, "status", "Talking")
    assert _seed(page) != first


def _assert_settings_are_copied(page: Page, seed: str) -> None:
    page.locator("#copy-settings").click()
    expect(page.locator("#settings-told")).to_have_text("The settings are copied.")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert copied == {"choices": {**held(page), "loop_guard": True}, "applied_seed": seed}
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
    page.locator("#copy-settings").click()
    expect(page.locator("#settings-told")).to_contain_text("copy the settings from the box")
    assert json.loads(page.locator("#settings-box").input_value()) == copied


WISH = "() => window.__tap.wish.audio"
SETTINGS = """() => {
  const peer = window.__tap.peers.at(-1);
  return peer.getSenders().find(({track}) => track).track.getSettings();
}"""


def test_the_microphone_s_switches_reach_it_and_are_kept(page: Page, plain_url: str) -> None:
    page.get_by_text("Microphone", exact=True).click()
    boxes = page.locator("#microphone [data-wish]")
    assert [box.is_checked() for box in boxes.all()] == [True] * 3, "as the server starts"
    page.locator("[data-wish=noiseSuppression]").uncheck()
    page.locator("[data-wish=echoCancellation]").uncheck()
    start_call(page)
    wait_for_text(page, "status", "Talking")
    wish = page.evaluate(WISH)
    assert (wish["echoCancellation"], wish["noiseSuppression"], wish["autoGainControl"]) == (False, False, True)
    before = page.evaluate(SETTINGS)
    assert (before["echoCancellation"], before["noiseSuppression"]) == (False, False)
    page.locator("[data-wish=noiseSuppression]").check()
    told = page.locator("#microphone-told")
    expect(told).to_have_text(re.compile(r"now"))
    obeyed = page.evaluate(SETTINGS)["noiseSuppression"]
    assert told.inner_text().startswith("It holds now" if obeyed else "This microphone cannot change it now")
    stop_call(page)
    assert page.evaluate("() => window.__tap.pending.getTracks().every((track) => track.readyState === 'ended')")
    page.reload()
    page.wait_for_selector(READY)
    page.get_by_text("Microphone", exact=True).click()
    assert [box.is_checked() for box in boxes.all()] == [False, True, True], "kept in this browser"
    page.evaluate("() => document.getElementById('use-socket').click()")
    page.locator("#talk-button").click()
    wait_for_text(page, "status", "Over the socket. Talking")
    wish = page.evaluate(WISH)
    assert (wish["echoCancellation"], wish["noiseSuppression"], wish["autoGainControl"]) == (False, True, True)
    page.goto(plain_url)  # another origin, where nothing is kept
    page.wait_for_selector(READY)
    assert [box.is_checked() for box in boxes.all()] == [False] * 3, "as --plain-microphone says"


def _focused(page: Page) -> str:
    """Where the keyboard is, and that it can be seen there."""
    page.keyboard.press("Tab")
    assert page.evaluate(LIT) == "solid", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
    return str(page.evaluate("document.activeElement.id"))


def _under_dock(page: Page) -> str:
    """The keyboard's next stop where the dock hides it."""
    page.keyboard.press("Tab")
    return str(page.evaluate(UNDER_DOCK))


@pytest.mark.parametrize("page", [390], indirect=True)
def test_it_is_within_reach_of_thumb_and_keyboard_and_can_be_read_in_light_and_dark(page: Page) -> None:
    assert _focused(page) == "skip", "the keyboard's first stop leads past the cards"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "talk-button"
    page.keyboard.press("Enter")
    wait_for_text(page, "status", "Talking")
    assert [_focused(page) for _ in range(2)] == ["mute-button", "start-over-button"]
    page.evaluate("(words) => window.personaplex.warn({idle: words})", "Say something, or the talk ends in 30 s.")
    page.evaluate("(said) => window.personaplex.transcript.said(said)", LONG_WORD)
    assert page.locator("#transcript").evaluate("(box) => box.scrollWidth <= box.clientWidth"), (
        "the longest word breaks"
    )
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", scheme == "dark")
        page.wait_for_timeout(300)  # gradio's own transitions
        assert page.evaluate(TOO_PALE) == [], scheme
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    top, bottom = page.evaluate(PLACE)
    assert 300 < top < bottom <= 1000, "the thumb's half"
    assert page.evaluate("document.getAnimations().length") == 0
    page.keyboard.press("Shift+Tab"), page.keyboard.press("Shift+Tab"), page.keyboard.press("Enter")
    wait_for_text(page, "status", "You ended the talk")
    assert page.evaluate("document.querySelector('#dock #words')") is None, "the words no longer fill the thumb's half"
    tops = page.evaluate("['keep', 'cards'].map((id) => document.getElementById(id).getBoundingClientRect().top)")
    assert tops == sorted(tops), "what can be kept comes first"
    page.get_by_text("Prompt and voice", exact=True).click()
    show_sampling(page)
    page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate(TOO_PALE) == [], "dark, unfolded"
    page.evaluate("() => scrollTo(0, 0)")
    assert [one for one in (_under_dock(page) for _ in range(40)) if one] == [], "focused, and under the dock"
    page.evaluate("() => document.body.classList.remove('dark')")
    page.wait_for_timeout(300)
    assert page.evaluate(TOO_PALE) == [], "light, unfolded"
