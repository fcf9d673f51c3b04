"""Gradio's real page with the library beside it: previews, the login, a proxy's path, personas that would be markup."""

from __future__ import annotations

import argparse
import asyncio
import re
from html import escape
from pathlib import Path
from typing import Any

import httpx
from gradio.routes import App
from support.injections import INJECTIONS

from personaplex_app.engine.echo import EchoStepper
from personaplex_app.engine.facade import Engine
from personaplex_app.metrics import Metrics
from personaplex_app.personas import Persona, load_personas
from personaplex_app.settings import Settings, add_model_flags, add_serve_flags, read_settings
from personaplex_app.web.catalogue import Catalogue
from personaplex_app.web.front import build_front
from personaplex_app.web.server import open_previews

PERSONAS = tuple(load_personas(Path(__file__).parents[2] / "personas"))
TAGS = re.compile(
    r"<(?:script|img|title|svg|iframe|meta|base|link|style|object|form|math|template|body|a)\b", re.IGNORECASE
)
ASTRONAUT = '<meta property="og:title" content="The astronaut with a problem">'


def _settings() -> Settings:
    parser = argparse.ArgumentParser()
    add_serve_flags(parser)
    add_model_flags(parser)
    return read_settings(parser.parse_args(["--engine", "echo"]), {})


def _app(personas: tuple[Persona, ...] = PERSONAS, auth: Any = None, root_path: str = "") -> App:
    """What `server.launch` has gradio serve, without an address."""
    engine, catalogue, settings, metrics = Engine(EchoStepper()), Catalogue(personas, ()), _settings(), Metrics()
    front = build_front(engine, catalogue, settings, metrics, open_previews(engine, catalogue, settings, metrics))
    front.page.auth, front.page.auth_message, front.page.root_path = auth, None, root_path
    return App.create_app(
        front.page,
        app_kwargs={"middleware": front.middleware, "routes": front.routes, "docs_url": None, "openapi_url": None},
    )


def _ask(*requests: tuple[str, str] | tuple[str, str, dict[str, Any]], **options: Any) -> list[httpx.Response]:
    """What a fresh page answers, one after another: (method, address) or (method, address, the request's options)."""

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(_app(**options))  # made here: gradio makes a loop where none runs
        async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
            return [await client.request(one[0], one[1], **(one[2] if len(one) > 2 else {})) for one in requests]

    return asyncio.run(ask())


def test_a_persona_s_link_shows_who_it_is() -> None:
    page, bare = _ask(("GET", "/?persona=astronaut"), ("HEAD", "/?persona=astronaut"))
    head = page.text.split("<script")[0]
    assert ASTRONAUT in head and "<title>The astronaut with a problem · personaplex_app</title>" in head
    assert head.count("og:title") == head.count("twitter:title") == 1
    assert "Gradio" not in head and "gradio.app" not in head and "og:image" not in head
    assert "window.gradio_config" in page.text and "content-security-policy" in page.headers
    assert "personaplex_visitor=" in page.headers["set-cookie"]
    assert int(page.headers["content-length"]) == len(page.content) == int(bare.headers["content-length"])


def test_any_other_address_is_the_plain_page() -> None:
    addresses = ["/", "/?persona=nobody", "/?persona=", "/?persona=%3Cscript%3E", "/?other=astronaut"]
    *pages, config = _ask(*(("GET", one) for one in addresses), ("GET", "/config?persona=astronaut"))
    assert {page.text for page in pages} == {pages[0].text} and ASTRONAUT not in pages[0].text
    assert config.headers["content-type"] == "application/json"


def test_the_library_stands_before_gradio_s_own_pages() -> None:
    elsewhere = {"headers": {"origin": "https://evil.example"}, "json": {}}
    personas, coach, refused = _ask(
        ("GET", "/library/personas"),
        ("POST", "/library/coach", {"json": {"prompt": "Be a pirate."}}),
        ("POST", "/library/coach", elsewhere),
    )
    assert len(personas.json()["personas"]) == len(PERSONAS)
    assert coach.json()["tokens"] is None and coach.json()["shape"] == "other"
    assert refused.status_code == 403


def test_a_login_hides_the_library_and_the_previews() -> None:
    form = {"data": {"username": "anna", "password": "secret"}}
    hidden, plain, outside, check, *inside = _ask(
        ("GET", "/?persona=astronaut"),
        ("GET", "/"),
        ("GET", "/library/personas"),
        ("POST", "/library/check", {"json": {}}),
        ("POST", "/login", form),  # the client keeps the cookie
        ("GET", "/?persona=astronaut"),
        ("GET", "/library/personas"),
        auth=[("anna", "secret")],
    )
    assert '"auth_required":true' in hidden.text and ASTRONAUT not in hidden.text and hidden.text == plain.text
    assert outside.status_code == 403 and check.json() == {"error": "Log in first."}
    assert [answer.status_code for answer in inside] == [200] * 3
    assert ASTRONAUT in inside[1].text and inside[2].json()["personas"]


def test_behind_a_proxy_s_path_too() -> None:
    for sent in ("/", "/behind/a/proxy/"):  # the proxy strips its path, or leaves it
        page, personas = _ask(
            ("GET", f"{sent}?persona=astronaut"), ("GET", f"{sent}library/personas"), root_path="/behind/a/proxy"
        )
        assert ASTRONAUT in page.text and personas.status_code == 200


def test_a_persona_that_would_be_markup_stays_text() -> None:
    personas = tuple(
        Persona(f"evil{n}", text, text, text, "NATF0", (text, text, text)) for n, text in enumerate(INJECTIONS)
    )
    (plain,) = _ask(("GET", "/?persona=evil0"), personas=(Persona("evil0", "a", "b", "c", "NATF0", ("d", "e", "f")),))
    told, *pages = _ask(
        ("GET", "/library/personas"), *(("GET", f"/?persona={one.id}") for one in personas), personas=personas
    )
    assert len(pages) >= 40
    for page, text in zip(pages, INJECTIONS, strict=True):
        assert TAGS.findall(page.text) == TAGS.findall(plain.text), "no tag more than with plain texts"
        assert f'<meta property="og:title" content="{escape(text)}">' in page.text
        assert "<" not in text or text not in page.text
    assert told.headers["content-type"] == "application/json", "which no browser reads as a page"
    assert [one["title"] for one in told.json()["personas"]] == INJECTIONS


def test_a_hostile_first_persona_stands_on_the_page_as_text() -> None:
    for text in INJECTIONS[:3]:
        first = Persona("evil", text, text, text, "NATF0", (text, text, text))
        plain = Persona("evil", "a", "b", "c", "NATF0", ("d", "e", "f"))
        pages = [_ask(("GET", "/"), personas=(one,))[0].text for one in (first, plain)]
        assert TAGS.findall(pages[0]) == TAGS.findall(pages[1]) and text not in pages[0]
