"""The real routes over any engine, served on this event loop; and a caller who speaks the protocol to them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from support.call import eventually, open_desk
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS, Pcm, float_from_int16, int16_from_float
from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.admission import Limits
from personaplex_app.engine.call_clock import CallLimits
from personaplex_app.engine.facade import Engine
from personaplex_app.network import Network
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.doors import Doors
from personaplex_app.web.own_voice_routes import own_voice_routes
from personaplex_app.web.own_voices import OwnVoices
from personaplex_app.web.recorded_talk import model_of
from personaplex_app.web.recording_routes import recording_routes
from personaplex_app.web.recordings import Recordings
from personaplex_app.web.routes import talk_routes
from personaplex_app.web.turn import IceMinter
from personaplex_app.web.visitors import COOKIE, VisitorCookie, Visitors

ICE = ({"urls": "stun:stun.example.org"},)
Message = dict[str, Any]


@dataclass(frozen=True)
class OpenFront:
    """A desk with its routes, at an address."""

    desk: FrontDesk
    visitors: Visitors
    http: str

    @property
    def socket(self) -> str:
        return self.http.replace("http", "ws", 1) + "/talk/socket"

    @contextlib.asynccontextmanager
    async def caller(self, visitor: str | None = None, **headers: str) -> AsyncIterator[Caller]:
        """Somebody on a socket; named by a cookie, or a stranger."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if visitor is not None:
            sent["cookie"] = f"{COOKIE}={self.visitors.sign(visitor)}"
        async with connect(self.socket, additional_headers=sent, close_timeout=2) as connection:
            caller = Caller(connection)
            try:
                yield caller
            finally:
                await caller.hang_up()


@contextlib.asynccontextmanager
async def open_front(
    engine: Engine,
    limits: Limits | None = None,
    call_limits: CallLimits | None = None,
    origins: tuple[str, ...] = (),
    sampling: SamplingSettings | None = None,
    own_voices: OwnVoices | None = None,
    recordings: Recordings | None = None,
) -> AsyncIterator[OpenFront]:
    """Serves `/talk/...`, `/voices/own` and `/recordings` until the block is left."""
    visitors, network = Visitors(), Network(ice=ICE)
    doors = Doors(visitors, network, origins)
    async with open_desk(engine, limits, call_limits, own_voices, recordings) as desk:
        talks = talk_routes(desk, doors, IceMinter(network), sampling or SamplingSettings())
        kept = recording_routes(desk.recordings, doors, model_of(engine.stepper))
        routes = [*talks, *own_voice_routes(desk, doors), *kept]
        async with _serve(Starlette(routes=routes, middleware=[Middleware(VisitorCookie, visitors=visitors)])) as port:
            yield OpenFront(desk, visitors, f"http://127.0.0.1:{port}")


@contextlib.asynccontextmanager
async def _serve(app: Starlette) -> AsyncIterator[int]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server._serve())  # `serve` would take over the process's signals
    try:
        await eventually(lambda: server.started, what="the routes are served")
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, 10)


class Caller:
    """One socket.

    Attributes:
        told: all messages, in order. heard: spoken frames, float32 [n]. closed: the code, once the server hung up.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.told: list[Message] = []
        self.heard: list[Pcm] = []
        self.heard_at: list[float] = []
        self.closed: int | None = None
        self._read = 0
        self._listening = asyncio.create_task(self._listen())
        self._speaking: list[asyncio.Task[None]] = []

    async def _listen(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in self.connection:
                if isinstance(message, str):
                    self.told.append(json.loads(message))
                else:
                    self.heard.append(float_from_int16(np.frombuffer(message, dtype="<i2")))
                    self.heard_at.append(time.monotonic())
        self.closed = self.connection.close_code

    async def say(self, kind: str, **fields: Any) -> None:
        """Sends a message; NaN travels as bare NaN."""
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def send(self, raw: str | bytes) -> None:
        """Sends whatever it is."""
        await self.connection.send(raw)

    async def next(self, kind: str, seconds: float = 20.0, fits: Callable[[Message], object] = bool) -> Message:
        """The next message of this kind that fits; what came before it is passed over."""
        began = time.monotonic()
        while True:
            while self._read < len(self.told):
                message = self.told[self._read]
                self._read += 1
                if message["type"] == kind and fits(message):
                    return message
            assert time.monotonic() - began < seconds, f"no {kind} in {seconds} s; told: {self.told}"
            assert self.closed is None, f"closed with {self.closed} before {kind}; told: {self.told}"
            await asyncio.sleep(0.005)

    async def ask(self, **choices: Any) -> None:
        await self.say("ask", choices=choices)

    async def talk(self, **choices: Any) -> Message:
        """Asks, is admitted at once, and talks on the socket; returns the view of the talk."""
        await self.ask(**choices)
        return await self.come_in()

    async def come_in(self) -> Message:
        """From the admission to the talk, on the socket."""
        await self.next("admitted")
        await self.say("sound")
        return await self.next("talk", fits=lambda message: message["state"] == "talking")

    def speak(self, microphone: Callable[[int], Pcm], speed: float = 1.0) -> None:
        """A microphone is on: frame number to float32 [1920], `speed` times as fast as time."""
        self._speaking.append(asyncio.create_task(self._speak(microphone, speed)))

    async def _speak(self, microphone: Callable[[int], Pcm], speed: float) -> None:
        began, number = time.monotonic(), 0
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self.say_frame(microphone(number))
                number += 1
                await asyncio.sleep(max(0.0, began + number * FRAME_SECONDS / speed - time.monotonic()))

    async def say_frame(self, pcm: Pcm) -> None:
        """Sound, at once."""
        await self.connection.send(int16_from_float(pcm).astype("<i2").tobytes())

    async def mute(self) -> None:
        """No microphone any more."""
        for task in self._speaking:
            task.cancel()
        await asyncio.gather(*self._speaking, return_exceptions=True)
        self._speaking.clear()

    async def lose(self) -> None:
        """The network between us is gone."""
        await self.mute()
        self.connection.transport.abort()
        await self._listening

    async def hang_up(self) -> None:
        await self.mute()
        await self.connection.close()
        await self._listening


def level(value: float) -> Callable[[int], Pcm]:
    """A microphone in which every sample is the value."""
    frame = np.full(FRAME_SAMPLES, value, dtype=np.float32)
    return lambda number: frame
