"""The first page in a browser: it shows how far the start is, becomes the real page by itself, or says why not."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from support.browser import CHROMIUM
from support.served import free_port

from personaplex_app.errors import InvalidInput
from personaplex_app.web.listening import ThreadedServer
from personaplex_app.web.starting import Entrance, ready_route

REAL = "<!doctype html><title>The real page</title><link rel=icon href=data:,>"
LICENCE = "https://huggingface.co/nvidia/personaplex-7b-v1"
BAR = "#bar[aria-valuenow='25']"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def port() -> int:
    return free_port()


class Visit:
    """A page, all that it asked for, and all that went wrong on it."""

    def __init__(self, page: Page, port: int, path: str = "/") -> None:
        self.page = page
        self.origin = f"http://127.0.0.1:{port}"
        self.asked: list[str] = []
        self.wrong: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        page.goto(self.origin + path)

    def text(self, name: str) -> str:
        return self.page.locator(f"#{name}").inner_text()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    yield context.new_page()
    context.close()


async def _real(request: Any) -> HTMLResponse:
    return HTMLResponse(REAL)


def _real_server(listening: socket.socket) -> ThreadedServer:
    server = ThreadedServer(Starlette(routes=[ready_route(), Route("/", _real)]), listening, "real")
    server.start()
    return server


def test_it_shows_how_far_the_start_is_and_becomes_the_real_page(page: Page, port: int) -> None:
    with Entrance("127.0.0.1", port) as entrance:
        entrance.report("Loading the libraries ...")
        visit = Visit(page, port)
        assert visit.text("words") == "Loading the libraries" and not page.locator(BAR).count()
        assert page.locator("#words").get_attribute("role") == "status"
        entrance.report("Fetching a.bin: 3.2 of 12.8 GB, 120 MB/s")
        entrance.report("The plan: two lines.")
        page.wait_for_selector(BAR, timeout=3000)
        assert page.locator(BAR).get_attribute("aria-valuetext") == "3.2 of 12.8 GB, 120 MB/s"
        assert (visit.text("words"), visit.text("detail")) == ("Fetching a.bin", "3.2 of 12.8 GB, 120 MB/s")
        assert "The plan: two lines." in visit.text("done")
        wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], "it fits on a phone"
        entrance.report("Loading weights ...")
        page.wait_for_selector("#bar:not([aria-valuenow])", timeout=3000)
        entrance.close_soon()
        server = _real_server(entrance.hand_over())
        expect(page).to_have_title("The real page")
        server.close()
    assert visit.wrong == [] and all(url.startswith(visit.origin) for url in visit.asked)


def test_it_says_why_the_start_failed_and_goes_on_looking(page: Page, port: int) -> None:
    with pytest.raises(InvalidInput), Entrance("127.0.0.1", port):
        visit = Visit(page, port)
        raise InvalidInput(f"Accept the licence on {LICENCE}.")
    expect(page.locator("#lost")).to_have_text("The server has stopped. This page goes on looking for it.")
    assert page.locator("#words a").get_attribute("href") == LICENCE
    assert (
        visit.text("words") == f"Accept the licence on {LICENCE}."
        and visit.text("what") == "The server could not start"
    )
    assert not page.locator("#bar").is_visible() and not page.locator("#then").is_visible()
    with Entrance("127.0.0.1", port) as entrance:
        entrance.report("Loading weights ...")
        expect(page.locator("#words")).to_have_text("Loading weights")
        assert visit.text("lost") == "" and page.locator("#then").is_visible()


def test_it_follows_the_visitor_s_wishes(browser: Browser, port: int) -> None:
    colours = {}
    with Entrance("127.0.0.1", port):
        for scheme, path in (("light", "/"), ("dark", "/"), ("light", "/?__theme=dark"), ("dark", "/?__theme=light")):
            context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            page = Visit(context.new_page(), port, path).page
            colours[scheme, path] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert page.evaluate("document.getAnimations().length") == 0
            context.close()
        context = browser.new_context(java_script_enabled=False)
        page = Visit(context.new_page(), port).page
        assert page.locator("#words").inner_text() == "Starting"
        refresh = page.locator("meta[http-equiv=refresh]")
        assert refresh.get_attribute("content") == "5", "a browser without scripts looks again by itself"
        context.close()
    light, dark = colours["light", "/"], colours["dark", "/"]
    assert light != dark and colours["light", "/?__theme=dark"] == dark and colours["dark", "/?__theme=light"] == light
