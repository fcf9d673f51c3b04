"""A visitor is a signed cookie: what we did not sign names nobody. A page of another origin is told from our own."""

from __future__ import annotations

import asyncio
from http.cookies import SimpleCookie
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personaplex_app.web.visitors import (
    COOKIE,
    MOST_COOKIE_CHARACTERS,
    VisitorCookie,
    Visitors,
    cookie_value,
    own_origin,
)

SECRET = b"a secret of 32 bytes or so ......"


@pytest.fixture
def visitors() -> Visitors:
    return Visitors(SECRET)


def _header(visitors: Visitors, visitor: str) -> str:
    return f"{COOKIE}={visitors.sign(visitor)}"


def test_what_was_signed_is_read(visitors: Visitors) -> None:
    visitor = visitors.fresh()
    assert visitors.read(_header(visitors, visitor)) == visitor
    assert visitors.read(f"other=1; {_header(visitors, visitor)}; more=2") == visitor
    assert Visitors(SECRET).read(_header(visitors, visitor)) == visitor, "with the same secret it outlives a restart"


def test_fresh_visitors_are_all_different(visitors: Visitors) -> None:
    assert len({visitors.fresh() for _ in range(1_000)}) == 1_000


def test_another_secret_s_cookie_names_nobody(visitors: Visitors) -> None:
    header = _header(visitors, "anna")
    assert Visitors(b"another").read(header) is None
    assert Visitors().read(_header(Visitors(), "anna")) is None, "without a secret each start draws its own"


def _forged(visitors: Visitors) -> dict[str, str]:
    name, _, mac = visitors.sign("anna").rpartition(".")
    return {
        "another's name": f"bert.{mac}",
        "no signature": name,
        "empty signature": f"{name}.",
        "half a signature": f"{name}.{mac[:32]}",
        "a letter more": f"{name}.{mac}0",
        "upper case": f"{name}.{mac.upper()}",
        "no name": f".{visitors.sign('')[1:]}",
        "signature first": f"{mac}.{name}",
    }


@pytest.mark.parametrize("kind", _forged(Visitors(SECRET)))
def test_a_forged_cookie_names_nobody(visitors: Visitors, kind: str) -> None:
    assert visitors.read(f"{COOKIE}={_forged(visitors)[kind]}") is None


@given(st.text(max_size=200) | st.text(max_size=100).map(lambda text: f"{COOKIE}={text}"))
@example("")
@example(f"{COOKIE}=é.é")
@example(f'{COOKIE}="\\377.\\377"')
@example("=;=;=" * 500)
def test_junk_names_nobody_and_raises_nothing(header: str) -> None:
    assert Visitors(SECRET).read(header) is None
    assert Visitors(SECRET).read(None) is None


def test_a_header_without_end_is_not_looked_at(visitors: Visitors) -> None:
    header = _header(visitors, "anna")
    assert visitors.read(header + "; x=" + "y" * MOST_COOKIE_CHARACTERS) is None
    assert cookie_value("a=1; b=2", "b") == "2" and cookie_value("a=1", "b") is None


def test_the_cookie_is_for_our_server_alone(visitors: Visitors) -> None:
    for secure in (False, True):
        morsel = SimpleCookie(visitors.set_cookie("anna", secure).replace("; Partitioned", ""))[COOKIE]
        assert visitors.read(f"{COOKIE}={morsel.value}") == "anna"
        assert morsel["httponly"] and morsel["path"] == "/" and not morsel["domain"]
        assert bool(morsel["secure"]) == secure
        assert morsel["samesite"] == ("None" if secure else "Lax")
    assert visitors.set_cookie("anna", True).endswith("; Partitioned")


# The middleware.


def _page(headers: list[tuple[bytes, bytes]], kind: bytes = b"text/html; charset=utf-8", **scope: Any) -> list[bytes]:
    """The cookies that a response brings."""
    sent: list[dict[str, Any]] = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", kind)]})
        await send({"type": "http.response.body", "body": b"."})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    whole = {"type": "http", "headers": headers, **scope}
    asyncio.run(VisitorCookie(app, Visitors(SECRET))(whole, None, send))
    assert sent[1]["body"] == b"."
    return [value for name, value in sent[0]["headers"] if name == b"set-cookie"]


def test_a_stranger_s_page_brings_a_cookie(visitors: Visitors) -> None:
    (cookie,) = _page([])
    (other,) = _page([])
    assert cookie != other and b"SameSite=Lax" in cookie
    assert visitors.read(cookie.decode().partition(";")[0]) is not None


@pytest.mark.parametrize(
    ("headers", "scope", "secure"),
    [
        ([], {"scheme": "https"}, True),
        ([(b"x-forwarded-proto", b"https")], {"scheme": "http"}, True),
        ([(b"x-forwarded-proto", b"http")], {"scheme": "http"}, False),
        ([(b"x-forwarded-proto", b"\xff\xfe")], {}, False),
    ],
)
def test_on_https_it_may_stand_in_a_frame(headers: Any, scope: dict[str, str], secure: bool) -> None:
    assert all((b"Secure" in cookie) == secure for cookie in _page(headers, **scope))


def test_who_has_one_keeps_it(visitors: Visitors) -> None:
    assert _page([(b"cookie", _header(visitors, "anna").encode())]) == []
    assert len(_page([(b"cookie", f"{COOKIE}=anna.junk".encode())])) == 1


@pytest.mark.parametrize("kind", [b"application/json", b"text/javascript", b"audio/wav"])
def test_only_pages_bring_one(kind: bytes) -> None:
    assert _page([], kind) == []


def test_a_websocket_passes_untouched() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    scope = {"type": "websocket", "headers": []}
    asyncio.run(VisitorCookie(app, Visitors(SECRET))(scope, "receive", "send"))
    assert seen == [(scope, "receive", "send")]


# Origins.

OUR = ("talk.example.org",)
CAMEL = ("Talk.Example.org",)
PORT = ("talk.example.org:7860",)
PROXY = ("127.0.0.1:7860", "talk.example.org")
ALLOWED = ("https://huggingface.co",)


@pytest.mark.parametrize(
    ("origin", "hosts", "allowed", "own"),
    [
        (None, OUR, (), True),
        ("https://talk.example.org", OUR, (), True),
        ("http://talk.example.org", OUR, (), True),
        ("https://TALK.example.org", CAMEL, (), True),
        ("https://talk.example.org:7860", PORT, (), True),
        ("https://talk.example.org", PROXY, (), True),
        ("https://huggingface.co", OUR, ALLOWED, True),
        ("https://talk.example.org:7861", PORT, (), False),
        ("https://talk.example.org", PORT, (), False),
        ("https://huggingface.co.evil.example", OUR, ALLOWED, False),
        ("https://evil.example", OUR, (), False),
        ("https://eviltalk.example.org", OUR, (), False),
        ("https://talk.example.org.evil.example", OUR, (), False),
        ("https://talk.example.org@evil.example", OUR, (), False),
        ("https://evil.example/talk.example.org", OUR, (), False),
        ("null", OUR, (), False),
        ("", OUR, (), False),
        ("", (), (), False),
        ("file://", OUR, (), False),
        ("https://[::1", OUR, (), False),
        ("https://talk.example.org", (None, None), (), False),
        ("https://", ("",), (), False),
    ],
)
def test_own_origin(origin: str | None, hosts: tuple[str | None, ...], allowed: tuple[str, ...], own: bool) -> None:
    assert own_origin(origin, list(hosts), allowed) is own


@given(st.text(max_size=60))
def test_a_junk_origin_is_not_ours(origin: str) -> None:
    assert not own_origin(origin, ["talk.example.org"])
