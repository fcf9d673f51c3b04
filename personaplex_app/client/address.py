"""Where a server is: the page's address, and from it those of the socket and of the login. Pure.

Must not know: sockets, HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from personaplex_app.errors import InvalidInput

SOCKET_PATH = "/talk/socket"
LINES_PATH = "/talk/lines"
_SECURE = {"http": False, "ws": False, "https": True, "wss": True}


@dataclass(frozen=True)
class Address:
    """A server by the address of its page, without a slash at its end, such as `https://you-space.hf.space`."""

    page: str

    @property
    def socket(self) -> str:
        """The socket's address, ws or wss."""
        return "ws" + self.page.removeprefix("http") + SOCKET_PATH

    @property
    def lines(self) -> str:
        """Where anybody may ask how many lines are free."""
        return self.page + LINES_PATH

    @property
    def login(self) -> str:
        """Where a name and a password are posted."""
        return f"{self.page}/login"


def parse_address(url: str) -> Address:
    """Takes the page's address as people copy it, with a path where a proxy adds one; raises InvalidInput."""
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidInput(f"{url!r} is no address.") from None
    if parts.scheme not in _SECURE or not host:
        raise InvalidInput(f"{url!r} is no address: give the page's, such as http://127.0.0.1:7860.")
    if parts.username is not None:
        raise InvalidInput("Give name and password apart from the address, as USER:PASS.")
    scheme = "https" if _SECURE[parts.scheme] else "http"
    return Address(f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}")


def parse_login(text: str | None) -> tuple[str, str] | None:
    """`USER:PASS` as flags give it; raises InvalidInput."""
    if text is None:
        return None
    user, _, password = text.partition(":")
    if not (user and password):
        raise InvalidInput("--auth must be USER:PASS, both not empty.")
    return user, password
