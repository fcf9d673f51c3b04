"""A link to a persona of the library shows its title and pitch elsewhere, literally, and no other page is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from support.injections import INJECTIONS

from personaplex_app.personas import Persona
from personaplex_app.web.own_origin import OwnOriginOnly
from personaplex_app.web.preview import PersonaPreview, preview_tags, with_tags

PAGE = b"""<!doctype html>
<html lang="en"><head>
<meta charset="utf-8" />
<meta property="og:title" content="Gradio" />
<meta property="og:url" content="https://gradio.app/" />
<meta
  name="twitter:image"
  content="https://elsewhere.example.org/x.jpg"
/>
<title>personaplex_app</title>
<style>a > b {}</style>
<script>window.gradio_config = {"a": "<title>not this</title><meta name='twitter:x'>"};</script>
</head><body>The page.</body></html>
"""
HTML = b"text/html; charset=utf-8"
Messages = list[dict[str, Any]]


def _persona(title: str = "The pilot", pitch: str = "Flies at night.") -> Persona:
    return Persona("pilot", title, pitch, "prompt", "NATF0", ("a", "b", "c"))


class _Head(HTMLParser):
    """The page's tags as a browser reads them."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.metas: dict[str, list[str | None]] = {}
        self.tags: list[str] = []
        self.title = ""
        self._in_title = False
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        told = dict(attrs)
        if tag == "meta" and (told.get("property") or told.get("name")):
            self.metas.setdefault(str(told.get("property") or told.get("name")), []).append(told.get("content"))
        self._in_title = tag == "title"

    def handle_endtag(self, tag: str) -> None:
        self._in_title = self._in_title and tag != "title"

    def handle_data(self, data: str) -> None:
        self.title += data if self._in_title else ""


def _get(
    query: str,
    path: str = "/",
    method: str = "GET",
    kind: bytes = HTML,
    status: int = 200,
    chunks: Sequence[bytes] = (PAGE,),
    personas: Sequence[Persona] = (_persona(),),
    scope: dict[str, Any] | None = None,
    outer: Callable[[Any], Any] = lambda app: app,
) -> Messages:
    """What comes out of the middleware when the app below sends these pieces."""
    sent: Messages = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = [(b"content-type", kind), (b"content-length", str(sum(map(len, chunks))).encode()), (b"x-kept", b"1")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for index, chunk in enumerate(chunks):
            more = {"more_body": True} if index < len(chunks) - 1 else {}
            await send({"type": "http.response.body", "body": chunk, **more})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asked = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": []}
    asyncio.run(outer(PersonaPreview(app, personas))({**asked, **(scope or {})}, None, send))
    return sent


def _body(sent: Messages) -> bytes:
    start, *rest = sent
    body = b"".join(message["body"] for message in rest)
    headers = dict(start["headers"])
    assert headers[b"content-length"] == str(len(body)).encode() and headers[b"x-kept"] == b"1"
    assert len(headers) == len(start["headers"]), "no header stands there twice"
    return body


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("size", [7, 200, 10_000])
def test_the_page_of_a_persona_says_who_it_is(size: int, method: str) -> None:
    chunks = [PAGE[at : at + size] for at in range(0, len(PAGE), size)]
    body = _body(_get("persona=pilot&x=1", method=method, chunks=chunks))
    head = _Head(body)
    assert head.title == "The pilot · personaplex_app"
    for name in ("og:title", "twitter:title"):
        assert head.metas[name] == ["The pilot"]
    for name in ("description", "og:description", "twitter:description"):
        assert head.metas[name] == ["Flies at night."]
    assert (
        head.metas["twitter:card"] == ["summary"] and "og:url" not in head.metas and "twitter:image" not in head.metas
    )
    assert b"gradio.app" not in body and b"elsewhere" not in body
    assert PAGE[PAGE.index(b"<script") :] in body, "from the first script on nothing changes"
    assert body.index(b"charset") < body.index(b"The pilot")


@pytest.mark.parametrize(
    "asked",
    [
        {"query": ""},
        {"query": "persona="},
        {"query": "persona=nobody"},
        {"query": "persona=../../etc/passwd"},
        {"query": "persona=%00"},
        {"query": "persona=%FF%FE"},
        {"query": "apersona=pilot"},
        {"query": "&".join(f"a{n}=1" for n in range(30)) + "&persona=pilot"},
        {"query": "persona=pilot&" + "x" * 3000},
        {"query": "persona=pilot", "path": "/config"},
        {"query": "persona=pilot", "path": "/talk/static/call.js"},
        {"query": "persona=pilot", "method": "POST"},
        {"query": "persona=pilot", "kind": b"application/json"},
        {"query": "persona=pilot", "status": 404},
        {"query": "persona=pilot", "status": 304, "chunks": [b""]},
        {"query": "persona=pilot", "chunks": [b"<p>no head</p>"]},
        {"query": "persona=pilot", "personas": []},
    ],
    ids=str,
)
def test_every_other_page_stays_as_it_is(asked: dict[str, Any]) -> None:
    assert _body(_get(**asked)) == b"".join(asked.get("chunks", [PAGE]))


def test_a_stream_is_not_held_back() -> None:
    _, *rest = _get("persona=pilot", kind=b"text/event-stream", chunks=[b"a", b"b", b"c"])
    assert [message["body"] for message in rest] == [b"a", b"b", b"c"]


def test_a_websocket_passes() -> None:
    asked = {"type": "websocket", "path": "/", "query_string": b"persona=pilot", "headers": []}
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(send)

    async def send(message: Any) -> None: ...

    asyncio.run(PersonaPreview(app, [_persona()])(asked, None, send))
    assert seen == [send]


@pytest.mark.parametrize(("path", "root"), [("/app/", "/app"), ("/app", "/app"), ("/app/", "/app/"), ("/", "")])
def test_below_a_path_of_somebody_s_the_page_is_found_too(path: str, root: str) -> None:
    body = _body(_get("persona=pilot", path=path, scope={"root_path": root}))
    assert _Head(body).title.startswith("The pilot")


@pytest.mark.parametrize(
    ("cookie", "shown"), [(b"", False), (b"access-token-7=stranger", False), (b"access-token-7=me", True)]
)
def test_who_has_to_log_in_sees_nothing_of_it(cookie: bytes, shown: bool) -> None:
    app = SimpleNamespace(auth={"a": "b"}, cookie_id="7", tokens={"me": "a"})
    scope = {"app": app, "headers": [(b"cookie", cookie)] if cookie else []}
    body = _body(_get("persona=pilot", scope=scope))
    assert (b"The pilot" in body) == shown and (shown or body == PAGE)


def test_the_page_s_own_rewriting_goes_on_above_it() -> None:
    foreign = PAGE.replace(b"<title>", b'<link href="https://fonts.example.org/x"><title>')
    body = _body(_get("persona=pilot", chunks=[foreign], outer=OwnOriginOnly))
    assert b"fonts.example.org" not in body and _Head(body).title.startswith("The pilot")


def test_an_empty_answer_stays_empty() -> None:
    sent = _get("persona=pilot", method="HEAD", chunks=[b""])
    assert dict(sent[0]["headers"])[b"content-length"] == b"0" and sent[1]["body"] == b""


@pytest.mark.parametrize("text", INJECTIONS)
def test_what_would_be_markup_comes_out_literally(text: str) -> None:
    plain = _Head(_body(_get("persona=pilot")))
    persona = _persona(title=text, pitch=text)
    head = _Head(_body(_get("persona=pilot", personas=[persona])))
    assert head.title == f"{text} · personaplex_app"
    for name in ("og:title", "twitter:title", "description", "og:description", "twitter:description"):
        assert head.metas[name] == [text]
    assert head.tags == plain.tags, "no tag more than without it"
    assert list(head.metas) == list(plain.metas)


@pytest.mark.parametrize("text", INJECTIONS)
def test_an_id_that_would_be_markup_is_nobody_s(text: str) -> None:
    assert _body(_get(f"persona={quote(text)}")) == PAGE


def test_there_are_forty() -> None:
    assert len(INJECTIONS) >= 40


def test_tags_go_to_the_end_of_what_stands_in_the_head() -> None:
    tags = preview_tags(_persona())
    assert with_tags(b"<html><head><p>x</p>", tags) == b"<html><head><p>x</p>" + tags + b"\n"
    assert with_tags(b"nothing", tags) == b"nothing" and with_tags(b"", tags) == b""
