"""The address: one listening socket for as long as the process lives, and the servers that take turns on it.

Between two servers the system keeps those who knock; nobody is refused.
In: an address, ASGI applications. Out: a socket; servers, each in a thread of its own. Must not know: what is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from typing import Any

import uvicorn

from personaplex_app.errors import InvalidInput, ServerFault
from personaplex_app.thread_names import name_thread

MOST_KNOCKING = 2048
CLOSE_SECONDS = 5.0
LOOK_SECONDS = 0.02


def listen(host: str, port: int) -> socket.socket:
    """Listens from now on; raises InvalidInput, in words, where that cannot be."""
    if ":" in host:
        raise InvalidInput(f"--host must be a name or an IPv4 address, not {host}.")
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(MOST_KNOCKING)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(f"Port {port} on {host} is taken; choose another with --port.") from None
        raise InvalidInput(f"Cannot listen on {host}, port {port}: {error.strerror or error}.") from None
    return listening


class ThreadedServer(uvicorn.Server):
    """uvicorn in a thread of its own.

    Args:
        listening: is closed with the server. thread_name: as `top -H` shows it.
        patience_seconds: how long, at the end, those who were let in already may take to ask. options: of
            `uvicorn.Config`.

    Attributes:
        loop: the event loop that the application runs on, once it runs.
    """

    def __init__(
        self, app: Any, listening: socket.socket, thread_name: str, patience_seconds: float = 0.0, **options: Any
    ) -> None:
        super().__init__(uvicorn.Config(app, **{"log_level": "warning", **options}))
        self.loop: asyncio.AbstractEventLoop | None = None
        self._listening = listening
        self._patience_seconds = patience_seconds
        self._known = threading.Event()  # whether it runs or has failed
        self._thread = threading.Thread(target=self._live, name=thread_name, daemon=True)

    def start(self) -> None:
        """Returns once the application answers; raises ServerFault where it does not start."""
        self._thread.start()
        self._known.wait()
        if not self.started:
            raise ServerFault("The page's server could not start; its log says why.")

    def close_soon(self) -> None:
        """Takes no more requests from a moment later on; what was begun is finished."""
        self.should_exit = True

    def close(self) -> None:
        """The same, and waits for it."""
        self.close_soon()
        self._thread.join(CLOSE_SECONDS)

    def _live(self) -> None:
        name_thread(self._thread.name)
        try:
            with contextlib.suppress(SystemExit):  # how uvicorn ends where the application does not start
                self.run([self._listening])
        finally:
            self._known.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's; tells who waits for it."""
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._known.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's; lets nobody in any more, and would hang up on those who are in and have not asked yet."""
        if self._patience_seconds:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._listening)
            until = loop.time() + self._patience_seconds
            await asyncio.sleep(LOOK_SECONDS)  # whoever was let in a moment ago becomes a connection
            while self.server_state.connections and loop.time() < until:
                await asyncio.sleep(LOOK_SECONDS)
        await super().shutdown(sockets)
