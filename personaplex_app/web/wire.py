"""What goes out on a talk's socket; a socket that closed meanwhile is one error, and nothing else is taken for it.

In: messages and sound. Out: the same on the wire, or WebSocketDisconnect. Must not know: talks, what a message means.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from personaplex_app.web.protocol import say

GONE = 1006


class Wire:
    """The sending half of one socket."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, kind: str, **fields: Any) -> None:
        """A server's message; raises WebSocketDisconnect."""
        await _sent(self._socket.send_text(say(kind, **fields)))

    async def send_bytes(self, sound: bytes) -> None:
        """PCM16 at 24 kHz; raises WebSocketDisconnect."""
        await _sent(self._socket.send_bytes(sound))


async def _sent(sending: Awaitable[None]) -> None:
    try:
        await sending
    except (RuntimeError, OSError) as error:  # Starlette's and the transport's words for a socket that closed
        raise WebSocketDisconnect(GONE) from error
