"""The cookies of one client: gradio's login and whatever the server sets, carried from request to request.

In: an address, a name and a password. Out: a Cookie header. Must not know: the protocol, what a cookie means.
"""

from __future__ import annotations

import asyncio
import email.message
import http.cookiejar
import json
import urllib.error
import urllib.parse
import urllib.request

from personaplex_app.client.address import Address
from personaplex_app.errors import InvalidInput

TIMEOUT_SECONDS = 15.0
MOST_BYTES = 10_000


class Cookies:
    """What one visitor's browser would keep of one server."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._jar = http.cookiejar.CookieJar()

    def header(self) -> str | None:
        """The Cookie header for this server, or None."""
        request = urllib.request.Request(f"{self._address.page}/")
        self._jar.add_cookie_header(request)
        return request.get_header("Cookie")

    def keep(self, set_cookie: list[str]) -> None:
        """Takes Set-Cookie headers of an answer."""
        message = email.message.Message()
        for value in set_cookie:
            message["Set-Cookie"] = value
        self._jar.extract_cookies(_Answer(message), urllib.request.Request(f"{self._address.page}/"))  # type: ignore[arg-type]

    async def visit(self) -> None:
        """Opens the page once, as a browser does, and is a visitor of the server's from then on."""
        await asyncio.to_thread(self._visit)

    def _visit(self) -> None:
        try:
            with self._opener().open(f"{self._address.page}/", timeout=TIMEOUT_SECONDS) as page:
                page.read()
        except urllib.error.HTTPError as error:
            error.close()
        except OSError as error:
            raise unreachable(self._address, error) from None

    def _opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))

    async def log_in(self, user: str, password: str) -> None:
        """gradio's login; raises InvalidInput where it is refused or nothing answers."""
        await asyncio.to_thread(self._log_in, user, password)

    def _log_in(self, user: str, password: str) -> None:
        body = urllib.parse.urlencode({"username": user, "password": password}).encode()
        try:
            with self._opener().open(urllib.request.Request(self._address.login, body), timeout=TIMEOUT_SECONDS):
                pass
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in (400, 401, 403):
                raise InvalidInput("The server does not know this name and password.", code="wrong_login") from None
            raise InvalidInput(f"{self._address.page} has no login: it answered {error.code}.") from None
        except OSError as error:
            raise unreachable(self._address, error) from None

    async def finds_our_server(self) -> bool:
        """Whether one of our servers is there at all, logged in or not; any web server may answer 403 to a socket."""
        return await asyncio.to_thread(self._finds_our_server)

    def _finds_our_server(self) -> bool:
        try:
            with urllib.request.urlopen(self._address.lines, timeout=TIMEOUT_SECONDS) as answer:
                body = answer.read(MOST_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                body = error.read(MOST_BYTES)
        except OSError:
            return False
        try:
            return "sentence" in json.loads(body)
        except (ValueError, TypeError):
            return False


class _Answer:
    """An answer of which only the headers matter."""

    def __init__(self, message: email.message.Message) -> None:
        self._message = message

    def info(self) -> email.message.Message:
        return self._message


def unreachable(address: Address, error: BaseException) -> InvalidInput:
    """Nobody answers there."""
    reason = getattr(error, "reason", None) or error
    words = getattr(reason, "strerror", None) or str(reason) or "no answer in time"
    return InvalidInput(f"No server answers at {address.page}: {words}. Is it running?", code="unreachable")
