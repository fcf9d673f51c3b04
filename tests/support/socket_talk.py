"""A talk over the server's socket, from a program that keeps everything it is told and when; for tests of the server.

The microphone sends 80 ms of a steady number every 80 ms, from a thread; another thread listens.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from support.engine import until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS

LOUDNESS = 1000
FRAME = np.full(FRAME_SAMPLES, LOUDNESS, dtype="<i2").tobytes()
Message = dict[str, Any]


class SocketTalk:
    """One connection.

    Attributes:
        told: every message and when it came. sound: when each spoken frame came. closed: once the server hung up.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.told: list[tuple[float, Message]] = []
        self.sound: list[float] = []
        self.closed = threading.Event()
        self._silent = threading.Event()
        self._threads = [threading.Thread(target=self._listen, daemon=True)]
        self._threads[0].start()

    def say(self, kind: str, **fields: Any) -> None:
        """Sends a message."""
        self._connection.send(json.dumps({"type": kind, **fields}))

    def speak(self) -> None:
        """The microphone is on, until the end."""
        self._threads.append(threading.Thread(target=self._speak, daemon=True))
        self._threads[-1].start()

    def find(self, kind: str, fits: Callable[[Message], object] = lambda message: True) -> Message | None:
        """The first message of this kind that fits."""
        return next((message for _, message in self.told if message["type"] == kind and fits(message)), None)

    def wait(self, kind: str, seconds: float = 20.0, **fields: Any) -> Message:
        """The first message of this kind with these fields; fails where none comes in time."""

        def fits(message: Message) -> bool:
            return all(message.get(name) == value for name, value in fields.items())

        until(lambda: self.find(kind, fits), seconds, f"{kind} {fields} among {[message for _, message in self.told]}")
        found = self.find(kind, fits)
        assert found is not None
        return found

    def hang_up(self) -> None:
        """No microphone any more, no connection."""
        self._silent.set()
        self._connection.close()
        for thread in self._threads:
            thread.join(5)

    def _listen(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                message = self._connection.recv()
                if isinstance(message, bytes):
                    self.sound.append(time.monotonic())
                else:
                    self.told.append((time.monotonic(), json.loads(message)))
        self.closed.set()

    def _speak(self) -> None:
        began, sent = time.monotonic(), 0
        with contextlib.suppress(ConnectionClosed):
            while not self._silent.wait(max(0.0, began + sent * FRAME_SECONDS - time.monotonic())):
                self._connection.send(FRAME)
                sent += 1


@contextlib.contextmanager
def dialled(url: str) -> Iterator[SocketTalk]:
    """A connection to the server at `http://...`."""
    address = url.replace("http://", "ws://") + "/talk/socket"
    with connect(address) as connection:
        talk = SocketTalk(connection)
        try:
            yield talk
        finally:
            talk.hang_up()


@contextlib.contextmanager
def talking(url: str, **choices: Any) -> Iterator[SocketTalk]:
    """A talk that runs: asked for, admitted, on the socket, and heard."""
    with dialled(url) as talk:
        talk.say("ask", choices=choices)
        talk.wait("admitted")
        talk.say("sound")
        talk.speak()
        talk.wait("talk", state="talking")
        until(lambda: talk.sound, 5.0, "sound comes back")
        yield talk
