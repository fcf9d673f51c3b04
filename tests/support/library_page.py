"""The talk page as its visitors use it: what its boxes hold, what a talk is asked with, what is told.

In: a page that was opened. Out: values. What a test waits for is waited for at most a few seconds.
"""

from __future__ import annotations

import base64
import itertools
import json
import time
import zlib
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from personaplex_app.web.form import FIELDS

READY = "html[data-library=ready]"
PATIENCE_MS = 20_000
HOLDS = "(part) => (window.personaplex?.values.prompt || '').includes(part)"  # a page that reloads holds nothing yet


def with_official_voices(mini: Path, folder: Path) -> Path:
    """A checkpoint in the folder that is the random miniature, and has its voice under all official names."""
    for file in mini.iterdir():
        if file.is_file():
            (folder / file.name).symlink_to(file)
    (folder / "voices").mkdir()
    (voice,) = (mini / "voices").iterdir()
    for kind, number in itertools.product(("NATF", "NATM", "VARF", "VARM"), range(5)):
        if number < 4 or kind.startswith("VAR"):
            (folder / "voices" / f"{kind}{number}.pt").symlink_to(voice)
    return folder


def held(page: Page) -> dict[str, Any]:
    """What the boxes hold, by name."""
    return dict(page.evaluate("() => ({...window.personaplex.values})"))


def wait_for_prompt(page: Page, part: str) -> dict[str, Any]:
    """Waits until the prompt holds a part; returns what all boxes hold."""
    page.wait_for_function(HOLDS, arg=part, timeout=PATIENCE_MS)
    return held(page)


def personas(page: Page) -> list[dict[str, Any]]:
    """The library as the server tells it."""
    return list(page.evaluate("async () => (await (await fetch('library/personas')).json()).personas"))


def boxes_of(persona: dict[str, Any], seed: str = "") -> dict[str, Any]:
    """What the boxes have to hold for a persona."""
    return {"prompt": persona["prompt"], "voice": persona["voice"], **persona["sampling"], "seed": seed}


def card(page: Page, title: str) -> Any:
    """The card with exactly this title."""
    return page.locator(".card").filter(has=page.locator(".title").get_by_text(title, exact=True))


def told(page: Page, part: str) -> str:
    """Waits until the line under the cards holds a part; returns all of it."""
    expect(page.locator("#told")).to_contain_text(part, timeout=PATIENCE_MS)
    return page.locator("#told").inner_text()


def show_prompt(page: Page) -> None:
    """Unfolds the prompt and the voices."""
    if not page.locator("#prompt textarea").is_visible():
        page.get_by_text("Prompt and voice", exact=True).click()


def write_prompt(page: Page, text: str) -> None:
    """Types into the prompt as a person does, in one piece."""
    show_prompt(page)
    page.locator("#prompt textarea").fill(text)


def show_sampling(page: Page) -> None:
    """Unfolds the sliders and the seed."""
    if not page.locator("#seed input, #seed textarea").is_visible():
        page.get_by_text("Sampling (moves during the call)").click()


def asked_with(page: Page) -> dict[str, Any]:
    """Presses Talk; returns what the message that asks for a talk takes from the boxes, and leaves again."""
    sent: list[str] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(str(frame))))
    page.locator("#talk-button").click()
    until = time.monotonic() + PATIENCE_MS / 1000
    while not (asking := [frame for frame in sent if '"ask"' in frame]):
        assert time.monotonic() < until, f"nothing is asked; sent: {sent}"
        page.wait_for_timeout(20)
    page.locator("#talk-button").click()
    choices: dict[str, Any] = json.loads(asking[0])["choices"]
    return {name: choices[name] for name in FIELDS}


def packed(value: Any) -> str:
    """A link's fragment that holds this JSON, or these bytes."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.urlsafe_b64encode(deflate.compress(text) + deflate.flush()).decode().rstrip("=")


def unpacked(fragment: str) -> Any:
    """What a link's fragment holds."""
    padded = fragment + "=" * (-len(fragment) % 4)
    return json.loads(zlib.decompress(base64.urlsafe_b64decode(padded), -15))
