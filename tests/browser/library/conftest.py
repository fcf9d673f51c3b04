"""One server and one browser for all tests of personas and voices on the page; each visit has a profile of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from support.browser import CHROMIUM, FLAGS
from support.library_page import READY, with_official_voices
from support.served import served

Visit = Callable[..., Page]


@pytest.fixture(scope="package")
def library_url(mini_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The random miniature with one voice under all official names: every route is real, and what is heard is noise."""
    import os

    if os.environ.get("DEV_URL"):
        yield os.environ["DEV_URL"]
        return
    with served(
        "--checkpoint", str(with_official_voices(mini_directory, tmp_path_factory.mktemp("checkpoint")))
    ) as url:
        yield url


@pytest.fixture(scope="package")
def chromium(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Its microphone hears somebody speak, over and over."""
    sound, rate_hz = soundfile.read(fixtures / "custom_voice.wav")
    microphone = tmp_path_factory.mktemp("microphone") / "voice.wav"
    soundfile.write(microphone, sound[np.flatnonzero(np.abs(sound) > 0.02)[0] :], rate_hz)
    args = [*FLAGS, f"--use-file-for-fake-audio-capture={microphone}"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=args)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Browser, library_url: str) -> Iterator[Visit]:
    """Opens the page, at an address' end, in a fresh profile or in one that is given; no script may fail on it.

    `begin` is run in the page before all else.
    """
    contexts: list[BrowserContext] = []
    failed: list[str] = []

    def note(text: str, origin: str) -> None:
        of_gradio = "/assets/" in origin and "/talk/static/" not in origin  # its heartbeat, when a page is left
        refused = "Failed to load resource" in text  # by the server, and told on the page
        if not (of_gradio or refused):
            failed.append(text)

    def open_page(
        end: str = "/", profile: BrowserContext | None = None, begin: str = "", width: int = 1280, **options: Any
    ) -> Page:
        context = profile or chromium.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        if begin:
            context.add_init_script(begin)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: note(error.message, error.stack or ""))
        page.on("console", lambda message: message.type == "error" and note(message.text, message.location["url"]))
        page.on("dialog", lambda dialog: failed.append(f"a dialog says {dialog.message}"))
        page.goto(f"{library_url}{end}")
        page.wait_for_selector(READY, timeout=30_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert failed == []
