"""One socket to a server: opened with the right cookies, its failures in words.

In: an address. Out: text and sound as they come; LinkLost when it is gone. Must not know: talks, the line.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from personaplex_app.client.address import Address
from personaplex_app.client.cookies import Cookies, unreachable
from personaplex_app.client.messages import Hello, Pong
from personaplex_app.client.parsing import parse_message
from personaplex_app.errors import InvalidInput, ServerFault

PROTOCOL = 1
OPEN_SECONDS = 10.0
CLOSE_SECONDS = 2.0
MOST_BYTES = 1 << 20
MOST_UNSENT_BYTES = 48_000  # a second of sound that the network does not take


class LinkLost(Exception):
    """The socket is gone."""


class Link:
    """An open socket, its hello read."""

    def __init__(self, socket: ClientConnection, hello: Hello) -> None:
        self._socket = socket
        self._used = False
        self.hello = hello

    async def receive(self) -> str | bytes:
        """The next message; may be cancelled without losing one. Raises LinkLost."""
        try:
            return await self._socket.recv()
        except ConnectionClosed:
            raise LinkLost from None

    async def send(self, message: dict[str, Any]) -> None:
        """One JSON message; raises LinkLost."""
        try:
            await self._socket.send(json.dumps(message))
        except ConnectionClosed:
            raise LinkLost from None

    async def clear(self) -> None:
        """Reads away what an earlier talk on this socket has left, up to the answer to a ping; raises LinkLost."""
        if self._used:
            at = time.monotonic()
            await self.send({"type": "ping", "at": at})
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    while not _is_pong(await self.receive(), at):
                        pass
            except TimeoutError:
                raise LinkLost from None
        self._used = True

    async def send_sound(self, pcm16: bytes) -> bool:
        """Sound, unless a second of it waits already: then False, since late sound is worth nothing."""
        if self._socket.transport.get_write_buffer_size() > MOST_UNSENT_BYTES:
            return False
        try:
            await self._socket.send(pcm16)
        except ConnectionClosed:
            return False
        return True

    async def close(self) -> None:
        """Closes it; a peer that does not answer is given two seconds."""
        await self._socket.close()


def _is_pong(message: str | bytes, at: float) -> bool:
    event = parse_message(message) if isinstance(message, str) else None
    return isinstance(event, Pong) and event.at == at


async def open_link(address: Address, cookies: Cookies) -> Link:
    """Connects and reads the hello; raises InvalidInput where that is no server of ours, or none at all."""
    header = cookies.header()
    try:
        socket = await open_socket(
            address.socket,
            additional_headers={"Cookie": header} if header else None,
            compression=None,
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            max_size=MOST_BYTES,
            write_limit=2 * MOST_UNSENT_BYTES,
        )
    except InvalidStatus as error:
        raise await _refused(address, cookies, error.response.status_code) from None
    except (InvalidHandshake, WebSocketException):
        raise _stranger(address, "it speaks no WebSocket") from None
    except (OSError, TimeoutError) as error:
        raise unreachable(address, error) from None
    if socket.response is not None:
        cookies.keep(socket.response.headers.get_all("Set-Cookie"))
    return Link(socket, await _read_hello(address, socket))


async def _refused(address: Address, cookies: Cookies, status: int) -> InvalidInput:
    if status in (401, 403) and await cookies.finds_our_server():
        words = f"{address.page} lets nobody in without a name and a password: give --auth USER:PASS."
        return InvalidInput(words, code="login_needed")
    if status in (502, 503, 504):
        return InvalidInput(f"The server at {address.page} is not ready ({status}). Try again later.", code="not_ready")
    return _stranger(address, f"{address.socket} answered {status}")


def _stranger(address: Address, why: str) -> InvalidInput:
    return InvalidInput(f"{address.page} is no server of this app: {why}.", code="not_our_server")


async def _read_hello(address: Address, socket: ClientConnection) -> Hello:
    try:
        first = parse_message(await socket.recv())
    except (ConnectionClosed, ServerFault):
        first = None
    if isinstance(first, Hello) and first.protocol == PROTOCOL:
        return first
    await socket.close()
    if isinstance(first, Hello):
        words = f"The server speaks protocol {first.protocol} and this client {PROTOCOL}: bring both to one version."
        raise InvalidInput(words, code="protocol")
    raise _stranger(address, "its first message is no greeting of ours")
