"""The door: our own page or a program, logged in where a login is asked for; and from where a visitor comes."""

from __future__ import annotations

from ipaddress import ip_network
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from personaplex_app.network import Network
from personaplex_app.web.doors import Doors, logged_in
from personaplex_app.web.visitors import COOKIE, Visitors

VISITORS = Visitors(b"secret")
PROXIED = Network(trusted_proxies=(ip_network("10.0.0.0/8"),))


def _connection(app: Any = None, peer: str | None = "203.0.113.7", **headers: str) -> HTTPConnection:
    sent = {"host": "talk.example.org", **{name.replace("_", "-"): value for name, value in headers.items()}}
    encoded = [(name.encode(), value.encode()) for name, value in sent.items()]
    scope = {"type": "websocket", "headers": encoded, "app": app, "client": (peer, 1234) if peer else None}
    return HTTPConnection(scope)


def _doors(network: Network | None = None, *origins: str) -> Doors:
    return Doors(VISITORS, network or Network(), origins)


def test_programs_and_our_own_page_come_in() -> None:
    assert _doors().refusal(_connection()) == ""
    assert _doors().refusal(_connection(origin="https://talk.example.org")) == ""
    behind = _connection(origin="https://outside.example", x_forwarded_host="outside.example")
    assert _doors().refusal(behind) == ""


def test_a_foreign_page_does_not_unless_it_is_named() -> None:
    foreign = _connection(origin="https://elsewhere.example")
    assert _doors().refusal(foreign) == "This page belongs to another origin."
    assert _doors(None, "https://elsewhere.example").refusal(foreign) == ""


def _locked(**tokens: str) -> Any:
    """An application as gradio's is with `auth`."""
    return SimpleNamespace(auth=[("anna", "secret")], cookie_id="q1", tokens=tokens)


@pytest.mark.parametrize(
    ("cookie", "inside"),
    [
        ("access-token-q1=good", True),
        ("access-token-unsecure-q1=good", True),
        ("other=1; access-token-q1=good", True),
        ("access-token-q1=bad", False),
        ("access-token-q1=", False),
        ("access-token-q2=good", False),
        ("access-token=good", False),
        ("junk", False),
        ("", False),
    ],
)
def test_with_a_login_its_cookie_opens(cookie: str, inside: bool) -> None:
    app = _locked(good="anna")
    assert logged_in(app, cookie) is inside
    assert _doors().refusal(_connection(app, cookie=cookie)) == ("" if inside else "Log in first.")


@pytest.mark.parametrize("app", [None, SimpleNamespace(auth=None), SimpleNamespace()])
def test_without_a_login_nobody_is_asked(app: Any) -> None:
    assert logged_in(app, None) and _doors().refusal(_connection(app)) == ""


def test_the_origin_is_looked_at_before_the_login() -> None:
    foreign = _connection(_locked(), origin="https://elsewhere.example")
    assert _doors().refusal(foreign) == "This page belongs to another origin."


def test_a_visitor_is_known_by_the_cookie_alone() -> None:
    assert _doors().visitor(_connection(cookie=f"{COOKIE}={VISITORS.sign('anna')}")) == "anna"
    assert _doors().visitor(_connection(cookie=f"{COOKIE}=anna.junk")) is None
    assert _doors().visitor(_connection()) is None


@pytest.mark.parametrize(
    ("network", "peer", "forwarded", "address"),
    [
        (Network(), "203.0.113.7", "198.51.100.1", "203.0.113.7"),
        (PROXIED, "203.0.113.7", "198.51.100.1", "203.0.113.7"),
        (PROXIED, "10.1.2.3", "198.51.100.1", "198.51.100.1"),
        (PROXIED, "10.1.2.3", "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        (PROXIED, None, "198.51.100.1", ""),
    ],
    ids=["no proxy", "a stranger says so", "our proxy", "the visitor lies to it", "no peer"],
)
def test_an_address_is_believed_as_far_as_our_proxies_vouch(
    network: Network, peer: str | None, forwarded: str, address: str
) -> None:
    assert _doors(network).address(_connection(peer=peer, x_forwarded_for=forwarded)) == address
