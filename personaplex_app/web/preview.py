"""What other places show of a link to a persona: its title and pitch in the head of the page `/?persona=ID`.

ASGI middleware that looks at nothing but that page, and leaves it as it is for an id that the library does not have
and for somebody who still has to log in.
In: the personas. Out: the page with tags of its own. Must not know: what else is on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qs

from personaplex_app.personas import Persona
from personaplex_app.web.doors import logged_in

SITE = "personaplex_app"
MOST_QUERY_BYTES = 2_000
MOST_QUERY_FIELDS = 20
_HEAD_ENDS = (b"<script", b"</head")  # whatever comes first; the rest is gradio's own
_OTHERS = re.compile(
    rb"<meta\s[^>]*(?:property|name)=\"(?:og:|twitter:|description)[^>]*>\s*|<title>[^<]*</title>\s*", re.IGNORECASE
)
_BEGIN = re.compile(rb"<head[^>]*>", re.IGNORECASE)


class PersonaPreview:
    """Use below the middleware that rewrites pages, so that these see what is added."""

    def __init__(self, app: Any, personas: Iterable[Persona]) -> None:
        self._app = app
        self._tags = {persona.id: preview_tags(persona) for persona in personas}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        tags = self._wanted(scope)
        await self._app(scope, receive, _Inserter(send, tags) if tags else send)

    def _wanted(self, scope: Mapping[str, Any]) -> bytes:
        """The tags for this request; empty where the page is to stay as it is."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return b""
        query = scope.get("query_string", b"")
        if b"persona=" not in query or len(query) > MOST_QUERY_BYTES or not _is_page(scope):
            return b""
        tags = self._tags.get(_asked(query), b"")
        return tags if tags and logged_in(scope.get("app"), _cookies(scope)) else b""


def preview_tags(persona: Persona) -> bytes:
    """Title, description and what social networks and messengers read, as HTML."""
    title, pitch = escape(persona.title, quote=True), escape(persona.pitch, quote=True)
    tags = [
        f"<title>{title} · {SITE}</title>",
        f'<meta name="description" content="{pitch}">',
        '<meta property="og:type" content="website">',
        f'<meta property="og:site_name" content="{SITE}">',
        f'<meta property="og:title" content="{title}">',
        f'<meta property="og:description" content="{pitch}">',
        '<meta name="twitter:card" content="summary">',
        f'<meta name="twitter:title" content="{title}">',
        f'<meta name="twitter:description" content="{pitch}">',
    ]
    return "\n".join(tags).encode()


def with_tags(page: bytes, tags: bytes) -> bytes:
    """The page with these tags in its head in place of those that were there; as it was where it has no head."""
    begin = _BEGIN.search(page)
    if begin is None:
        return page
    ends = [at for at in (page.find(mark, begin.end()) for mark in _HEAD_ENDS) if at >= 0]
    end = min(ends, default=len(page))
    kept = _OTHERS.sub(b"", page[begin.end() : end])
    return page[: begin.end()] + kept + tags + b"\n" + page[end:]  # the character set stands first


def _is_page(scope: Mapping[str, Any]) -> bool:
    root = scope.get("root_path", "").rstrip("/")
    return scope["path"].removeprefix(root) in ("", "/")


def _asked(query: bytes) -> str:
    try:
        fields = parse_qs(query.decode("ascii"), max_num_fields=MOST_QUERY_FIELDS)
    except ValueError:
        return ""
    return fields.get("persona", [""])[0]


def _cookies(scope: Mapping[str, Any]) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie"), None)


class _Inserter:
    """Holds a page back until it is whole, then sends it with the tags in it; all else goes through."""

    def __init__(self, send: Any, tags: bytes) -> None:
        self._send = send
        self._tags = tags
        self._start: dict[str, Any] | None = None
        self._body = bytearray()

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start" and _is_whole_page(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body"):
                await self._finish(self._start)

    async def _finish(self, start: dict[str, Any]) -> None:
        body = with_tags(bytes(self._body), self._tags) if self._body else b""
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length" or not body]
        if body:
            headers.append((b"content-length", str(len(body)).encode()))
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _is_whole_page(start: Mapping[str, Any]) -> bool:
    headers = {name.lower(): value for name, value in start["headers"]}
    html = headers.get(b"content-type", b"").startswith(b"text/html")
    return start["status"] == 200 and html and b"content-encoding" not in headers
