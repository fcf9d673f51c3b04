"""The way in: a server's socket, on which one talk after another is held.

In: an address and, where it asks for one, a login. Out: a `Line`. Must not know: sound, the course of a talk.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TypedDict, Unpack

from personaplex_app.client.address import Address, parse_address
from personaplex_app.client.cookies import Cookies
from personaplex_app.client.link import Link, open_link
from personaplex_app.client.messages import Hello
from personaplex_app.client.talk import Talk


class Wishes(TypedDict, total=False):
    """What a talk may choose; what is left out is the server's to choose."""

    prompt: str
    voice: str
    audio_temperature: float
    text_temperature: float
    audio_top_k: int
    text_top_k: int
    repetition_penalty: float
    seed: int
    loop_guard: bool


class Line:
    """A connection to a server; opened by `connect`.

    Attributes:
        link: the socket in use; another one after a lost connection.
    """

    def __init__(self, address: Address, cookies: Cookies, link: Link) -> None:
        self._address = address
        self._cookies = cookies
        self.link = link

    @property
    def hello(self) -> Hello:
        """What the server said of itself: how many lines it has and how many were free."""
        return self.link.hello

    @property
    def cookie(self) -> str | None:
        """The Cookie header of requests that belong to this line."""
        return self._cookies.header()

    def talk(self, **wishes: Unpack[Wishes]) -> Talk:
        """A talk with these choices; use as an async context manager, one at a time."""
        return Talk(self, wishes)

    async def reopen(self) -> None:
        """A fresh socket in place of one that is gone; raises InvalidInput where there is no way to the server."""
        await self.link.close()
        self.link = await open_link(self._address, self._cookies)


@contextlib.asynccontextmanager
async def connect(url: str, auth: tuple[str, str] | None = None, visit: bool = False) -> AsyncIterator[Line]:
    """Opens a line to the server whose page has this address.

    Args:
        auth: name and password, where the server wants them. visit: opens the page first, as a browser does, so that
            the server knows one visitor by its cookie; without it every line is a fresh one.
    Raises InvalidInput: no such server, not one of ours, a wrong login.
    """
    address = parse_address(url)
    cookies = Cookies(address)
    if auth is not None:
        await cookies.log_in(*auth)
    if visit:
        await cookies.visit()
    line = Line(address, cookies, await open_link(address, cookies))
    try:
        yield line
    finally:
        await line.link.close()
