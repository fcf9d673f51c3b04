"""A tiny server that says whatever a test wants over the protocol's socket, and notes what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

HELLO = {"type": "hello", "protocol": 1, "sample_rate_hz": 24000, "frame_samples": 1920, "slots": 1, "free": 1}
ADMITTED = {"type": "admitted", "ticket": "t", "ice_servers": [], "connect_seconds": 15}
ENDED = {"type": "ended", "code": "stopped", "sentence": "You ended the talk."}


def talk_state(state: str = "talking", grant: str = "g1", **more: Any) -> dict[str, Any]:
    """A `talk` message."""
    fields = {"sentence": "Talking.", "path": "socket", "applied": "", "resumed": False, "counters": {}}
    fields |= {"seed": "7", "frames": 0, "window": {}}
    return {"type": "talk", "state": state, "grant": grant, **fields, **more}


def refused(code: str, sentence: str = "No.") -> dict[str, Any]:
    """A `refused` message."""
    return {"type": "refused", "code": code, "sentence": sentence}


class FakeLine:
    """One connection of a client, from the server's side.

    Attributes:
        said: text messages it sent, pings left out. sound: bytes it sent.
    """

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.said: list[dict[str, Any]] = []
        self.sound = b""

    async def tell(self, *messages: dict[str, Any] | str | bytes) -> None:
        """Sends messages; strings and bytes as they are."""
        for message in messages:
            await self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def hear(self, kind: str) -> dict[str, Any]:
        """Reads until a message of this type comes; answers pings."""
        while True:
            received = await self.socket.recv()
            if isinstance(received, bytes):
                self.sound += received
                continue
            message = json.loads(received)
            if message["type"] == "ping":
                await self.tell({"type": "pong", "at": message["at"], "step_ms": 3})
                continue
            self.said.append(message)
            if message["type"] == kind:
                return message

    async def begin(self, **more: Any) -> None:
        """The usual way into a talk."""
        await self.tell(HELLO)
        await self.hear("ask")
        await self.tell(ADMITTED)
        await self.hear("sound")
        await self.tell(talk_state("priming"), talk_state(**more))

    def cut(self) -> None:
        """The network between us is gone."""
        self.socket.transport.abort()


Script = Callable[[FakeLine], Awaitable[None]]


@contextlib.asynccontextmanager
async def fake_server(
    *scripts: Script, status: int | None = None, lines: str = ""
) -> AsyncIterator[tuple[str, list[FakeLine]]]:
    """Runs a script for each connection, in order; the last one again for all others. Yields address and lines.

    Args:
        status: answers every request with this instead of opening a socket. lines: the body of that answer.
    """
    opened: list[FakeLine] = []

    async def answer(socket: ServerConnection) -> None:
        line = FakeLine(socket)
        opened.append(line)
        with contextlib.suppress(ConnectionClosed):
            await scripts[min(len(opened), len(scripts)) - 1](line)

    def look(socket: ServerConnection, request: Request) -> Response | None:
        if status is None and request.path == "/somewhere/talk/socket":
            return None
        return socket.respond(HTTPStatus(status or 404), lines)

    async with serve(answer, "127.0.0.1", 0, process_request=look, close_timeout=1) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/somewhere/", opened


def run(story: Callable[[], Awaitable[None]]) -> None:
    """Plays a story on an event loop of its own."""
    asyncio.run(asyncio.wait_for(story(), 30))  # type: ignore[arg-type]
