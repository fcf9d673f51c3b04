"""The door of our own routes: our page's origin or a program, logged in where a login is asked for, and from where.

In: a request or a socket that is being opened. Out: whether it may come in, the visitor and the address.
Must not know: tickets, the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection

from personaplex_app.network import Network, client_address
from personaplex_app.web.visitors import Visitors, cookie_value, own_origin


@dataclass(frozen=True)
class Doors:
    """Who may come in.

    Attributes:
        network: proxies that may speak for a visitor. origins: pages besides our own that may use us.
    """

    visitors: Visitors
    network: Network
    origins: tuple[str, ...] = ()

    def refusal(self, connection: HTTPConnection) -> str:
        """Why this connection may not come in; empty where it may."""
        headers = connection.headers
        hosts = [headers.get("host"), headers.get("x-forwarded-host")]
        if not own_origin(headers.get("origin"), hosts, self.origins):
            return "This page belongs to another origin."
        if not logged_in(connection.scope.get("app"), headers.get("cookie")):
            return "Log in first."
        return ""

    def visitor(self, connection: HTTPConnection) -> str | None:
        """The visitor by the cookie, if there is one of ours."""
        return self.visitors.read(connection.headers.get("cookie"))

    def address(self, connection: HTTPConnection) -> str:
        """Where the visitor comes from, as far as the proxies that we trust say so."""
        peer = connection.client.host if connection.client else ""
        return client_address(peer, connection.headers.get("x-forwarded-for"), self.network)


def logged_in(app: Any, cookie_header: str | None) -> bool:
    """Whether gradio's login, where `--auth` asks for one, knows this cookie."""
    if getattr(app, "auth", None) is None:
        return True
    names = (f"access-token-{app.cookie_id}", f"access-token-unsecure-{app.cookie_id}")
    return any(app.tokens.get(cookie_value(cookie_header, name)) is not None for name in names)
