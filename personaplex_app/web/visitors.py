"""Who a visitor is: a random name in a signed cookie, set with the page. Pure, but for the middleware's sending.

In: request headers. Out: a visitor's name; a cookie for those who have none. An address never names a visitor.
Must not know: tickets, the engine.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

COOKIE = "personaplex_visitor"
YEAR_SECONDS = 365 * 24 * 3600
MOST_COOKIE_CHARACTERS = 4096


def fresh_visitor() -> str:
    """A new visitor's name."""
    return secrets.token_urlsafe(16)


class Visitors:
    """Signs and reads the visitor's cookie.

    Args:
        secret: the signing key; None draws one, and visitors are strangers again after a restart.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or secrets.token_bytes(32)

    def fresh(self) -> str:
        """A new visitor's name."""
        return fresh_visitor()

    def sign(self, visitor: str) -> str:
        """The cookie's value."""
        return f"{visitor}.{self._mac(visitor)}"

    def read(self, cookie_header: str | None) -> str | None:
        """The visitor in a Cookie header; None where there is none or it is not of our making."""
        value = cookie_value(cookie_header, COOKIE)
        if value is None:
            return None
        visitor, dot, mac = value.rpartition(".")
        genuine = dot and visitor and hmac.compare_digest(mac.encode(), self._mac(visitor).encode())
        return visitor if genuine else None

    def set_cookie(self, visitor: str, secure: bool) -> str:
        """A Set-Cookie header's value; in a Space's frame, that is on https, it must be allowed to be third-party."""
        place = "SameSite=None; Secure; Partitioned" if secure else "SameSite=Lax"
        return f"{COOKIE}={self.sign(visitor)}; Path=/; Max-Age={YEAR_SECONDS}; HttpOnly; {place}"

    def _mac(self, visitor: str) -> str:
        return hmac.new(self._secret, visitor.encode(), sha256).hexdigest()


def cookie_value(header: str | None, name: str) -> str | None:
    """One cookie of a Cookie header, or None."""
    if not header or len(header) > MOST_COOKIE_CHARACTERS:
        return None
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return found.value if found else None


def own_origin(origin: str | None, hosts: list[str | None], allowed: tuple[str, ...] = ()) -> bool:
    """Whether a request comes from our own page, or from a program, which sends no Origin.

    Args:
        hosts: what the request calls us (Host, X-Forwarded-Host); a browser lets no page set either.
    """
    if origin is None:
        return True
    if origin in allowed:
        return True
    try:
        host = urlsplit(origin).netloc.lower()
    except ValueError:
        return False
    return bool(host) and host in [name.strip().lower() for name in hosts if name]


class VisitorCookie:
    """ASGI middleware: an HTML page for somebody without a valid cookie brings one."""

    def __init__(self, app: Any, visitors: Visitors) -> None:
        self._app = app
        self._visitors = visitors

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if self._visitors.read(headers.get(b"cookie")) is not None:
            await self._app(scope, receive, send)
            return
        secure = scope.get("scheme") == "https" or "https" in headers.get(b"x-forwarded-proto", "")
        cookie = self._visitors.set_cookie(self._visitors.fresh(), secure)

        async def send_with_cookie(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start" and _is_page(message["headers"]):
                message = {**message, "headers": [*message["headers"], (b"set-cookie", cookie.encode())]}
            await send(message)

        await self._app(scope, receive, send_with_cookie)


def _is_page(headers: Any) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in headers)
