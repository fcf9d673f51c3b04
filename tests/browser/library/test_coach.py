"""The persona coach under the prompt: the server's own counts while one types, a way back to the trained shapes."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect
from support.library_page import held, personas, show_prompt, wait_for_prompt, write_prompt

COACH = """async (prompt) => (await (await fetch("library/coach", {method: "POST", body: JSON.stringify(
  {prompt, voice: window.personaplex.values.voice})})).json())"""


def _counts(page: Page, prompt: str) -> dict[str, Any]:
    """What the server counts, once the page shows it."""
    counts: dict[str, Any] = page.evaluate(COACH, prompt)
    expect(page.locator("#coach-words")).to_contain_text(f"{counts['tokens']} tokens · {counts['seconds']:.1f} s")
    return counts


def test_the_counts_are_the_server_s_while_one_types_and_strange_shapes_are_told(visit) -> None:
    page = visit()
    first = _counts(page, held(page)["prompt"])
    asked: list[str] = []
    page.on("request", lambda request: request.url.endswith("/library/coach") and asked.append(request.url))
    show_prompt(page)
    box = page.locator("#prompt textarea")
    box.press("End")
    box.press_sequentially(" You are in Porto.", delay=15)
    page.wait_for_function("() => window.personaplex.values.prompt.includes('You are in Porto.')")
    counted = _counts(page, held(page)["prompt"])
    assert counted["tokens"] > first["tokens"]
    assert 1 <= len(asked) - 1 <= 9, "one question a pause, not one a letter; one is this test's"
    meter = page.locator("#coach-meter")
    share = round(100 * counted["share"] / counted["most_share"])
    assert meter.get_attribute("aria-valuenow") == str(share)
    assert "of the window" in (meter.get_attribute("aria-valuetext") or "")
    expect(page.locator("#coach-sentence")).to_have_text(counted["sentence"])
    _assert_one_is_led_back_to_the_shapes(page)


def _assert_one_is_led_back_to_the_shapes(page: Page) -> None:
    strange = "Sing a song of sixpence, a pocket full of rye."
    write_prompt(page, strange)
    expect(page.locator("#coach-sentence")).to_contain_text("none of the shapes")
    counts = page.evaluate(COACH, strange)
    page.locator("#coach-nearest").click()
    assert wait_for_prompt(page, counts["nearest"]["template"])["prompt"] == counts["nearest"]["template"]
    expect(page.locator("#coach-nearest")).to_be_hidden()
    page.locator("#coach-told").get_by_role("button", name="Bring it back").click()
    page.wait_for_function("(text) => window.personaplex.values.prompt === text", arg=strange)


def test_what_is_too_long_is_told_and_never_cut_and_a_form_writes_what_fits(visit) -> None:
    page = visit()
    long = "You enjoy having a good conversation. " + "bees " * 1_500
    write_prompt(page, long)
    expect(page.locator("#coach-sentence")).to_contain_text("too long")
    expect(page.locator("#coach")).to_have_attribute("data-fits", "false")
    assert held(page)["prompt"] == long
    write_prompt(page, "x" * 100_001)
    expect(page.locator("#coach-sentence")).to_contain_text("100,000")
    write_prompt(page, personas(page)[0]["prompt"])
    expect(page.locator("#coach")).to_have_attribute("data-fits", "true")
    _assert_the_desk_s_form_writes_the_prompt(page)


def _assert_the_desk_s_form_writes_the_prompt(page: Page) -> None:
    page.get_by_text("Write it for a service desk").click()
    page.get_by_role("button", name="Write the prompt").click()
    expect(page.locator("#desk-told")).to_have_class("bad")
    fields = {"company": "Bee & Sons", "kind": "honey shop", "name": "Ada Silva", "facts": "A jar costs 7 dollars."}
    for name, text in fields.items():
        page.locator(f"#desk-form [name={name}]").fill(text)
    page.locator("#desk-form [name=name]").press("Enter")
    prompt = wait_for_prompt(page, "Bee & Sons")["prompt"]
    assert prompt.startswith("You work for Bee & Sons which is a honey shop and your name is Ada Silva. Information:")
    assert "A jar costs 7 dollars." in prompt
    expect(page.locator("#coach")).to_have_attribute("data-shape", "service")
