"""Takes the pictures of the page in docs/pictures: every state that a visitor can meet, at two widths.

In: a folder (docs/pictures where none is named). Out: small PNG files. It runs the app on the packaged miniature and
drives a Chromium whose microphone plays a synthesized voice; `scripts/check` has set up what it needs.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.browser import CHROMIUM, FLAGS  # noqa: E402
from support.library_page import READY  # noqa: E402
from support.served import served  # noqa: E402
from support.speech import speak  # noqa: E402

WIDTHS = {"desk": (1200, 1000), "phone": (390, 844)}
COLOURS = 128
PATIENCE_MS = 60_000
PROBE = ROOT / "tests" / "support" / "probe_server.py"
DENIED = """navigator.mediaDevices.getUserMedia = async () => { throw new DOMException("no", "NotAllowedError"); }"""
TOP = "window.scrollTo(0, 0)"


class Photographer:
    """Pictures of one width, into one folder."""

    def __init__(self, browser: Browser, folder: Path, width: str) -> None:
        self._browser, self._folder, self._width = browser, folder, width

    @contextmanager
    def visitor(self, url: str, locale: str = "en-US", dark: bool = False, script: str = "") -> Iterator[Page]:
        """A fresh profile before the page, which stands."""
        width, height = WIDTHS[self._width]
        context: BrowserContext = self._browser.new_context(
            viewport={"width": width, "height": height}, locale=locale, color_scheme="dark" if dark else "light"
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        if script:
            page.add_init_script(script)
        page.goto(url)
        page.wait_for_selector(READY)
        try:
            yield page
        finally:
            context.close()

    def take(self, page: Page, name: str, at: str = "") -> None:
        """What the window shows, scrolled to an element where one is named."""
        page.evaluate(f"document.querySelector({at!r}).scrollIntoView({{block: 'start'}})" if at else TOP)
        page.wait_for_timeout(500)
        path = self._folder / f"{name}-{self._width}.png"
        page.screenshot(path=path)
        with Image.open(path) as picture:
            picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def talk(page: Page, turns: int) -> None:
    """Presses Talk, and waits until the persona has said something so many times."""
    page.locator("#talk-button").click()
    page.wait_for_function(
        "(turns) => document.getElementById('transcript').textContent.split('Persona').length > turns", arg=turns
    )


def a_visit(camera: Photographer, url: str) -> None:
    """First sight, a talk, what is left of it; meanwhile somebody waits in the line."""
    with camera.visitor(url) as page:
        camera.take(page, "1-first-visit")
        page.locator("#keep-consent").check()
        talk(page, 2)
        page.wait_for_timeout(1500)
        camera.take(page, "2-talking")
        with camera.visitor(url) as other:
            other.locator("#talk-button").click()
            other.get_by_text("You are number 1 in the line").wait_for()
            camera.take(other, "3-in-the-line")
        page.locator("#mute-button").click()
        page.wait_for_timeout(1500)
        camera.take(page, "4-muted")
        page.locator("#health summary").click()
        camera.take(page, "5-health", "#health")
        page.locator("#talk-button").click()
        page.locator("#xray").wait_for()
        camera.take(page, "6-after")
        camera.take(page, "7-kept", "#keep")
        camera.take(page, "8-x-ray", "#xray")


def other_looks(camera: Photographer, url: str) -> None:
    """Dark, in Chinese and Korean, unfolded, and without a microphone."""
    with camera.visitor(url, dark=True) as page:
        talk(page, 1)
        camera.take(page, "9-dark")
        page.locator("#talk-button").click()
    for name, locale in (("10-chinese", "zh-CN"), ("11-korean", "ko-KR")):
        with camera.visitor(url, locale) as page:
            camera.take(page, name)
    with camera.visitor(url, script=DENIED) as page:
        page.locator("#talk-button").click()
        page.wait_for_timeout(1000)
        camera.take(page, "12-microphone-refused")
        page.get_by_text("Prompt and voice").click()
        page.get_by_text("Sampling (moves during the call)").click()
        page.wait_for_timeout(1000)
        camera.take(page, "13-expert", "#prompt")


def a_slow_server(camera: Photographer, url: str) -> None:
    """The library's gallery; the strip says whose fault it is."""
    with camera.visitor(url) as page:
        camera.take(page, "15-gallery")
        page.locator("#talk-button").click()
        page.locator("#health-verdict").get_by_text("slower than real time").wait_for()
        camera.take(page, "14-slow-server")


def main(folder: Path) -> None:
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        microphone = Path(place) / "microphone.wav"
        question = np.concatenate([np.zeros(5 * 24_000), speak("How much is the bike?"), np.zeros(4 * 24_000)])
        soundfile.write(microphone, question, 24_000)
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*FLAGS, f"--use-file-for-fake-audio-capture={microphone}"]
        )
        slow = {"PROBE_STEP_SECONDS": "0.12", "PROBE_OUT": str(Path(place) / "probe.json")}
        for width in WIDTHS:
            camera = Photographer(browser, folder, width)
            with served("--checkpoint", "demo") as url:
                a_visit(camera, url)
                other_looks(camera, url)
            with served("--engine", "echo", script=PROBE, **slow) as url:
                a_slow_server(camera, url)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures")
