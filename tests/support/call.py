"""A call without a browser: a ticket from the desk, and what FastRTC does with our handler, at the pace of time.

The microphone sends a packet each 20 ms, the pump calls `emit` as fast as it returns, the player takes a packet each
20 ms from the queue whose depth the handler reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from fastrtc import CloseStream
from fastrtc.utils import Context, current_context
from support.engine import CHOICES, is_talking

from personaplex_app.audio import Pcm, int16_from_float
from personaplex_app.controls import Choices
from personaplex_app.engine.admission import Limits
from personaplex_app.engine.call_clock import CallLimits
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.session import Session
from personaplex_app.metrics import Metrics
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.handler import WIRE_RATE_HZ, CallHandler
from personaplex_app.web.own_voices import OwnVoices
from personaplex_app.web.recordings import Recordings
from personaplex_app.web.talk import Talk

PACKET_SAMPLES = WIRE_RATE_HZ // 50
PACKET_SECONDS = 0.02


class Track:
    """FastRTC's side of the output: a queue of packets of 20 ms."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Pcm] = asyncio.Queue()

    def clear_queue(self) -> None:
        """FastRTC hands this bound method to the handler."""


@dataclass
class FakePeers:
    """What a call's handler sees of the signalling.

    Attributes:
        cookies: whose cookie came with which connection's offer. closed: connections that were closed, in order.
    """

    cookies: dict[str, str] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)

    def visitor(self, webrtc_id: str) -> str | None:
        return self.cookies.get(webrtc_id)

    async def close(self, webrtc_id: str) -> None:
        self.closed.append(webrtc_id)


class Call:
    """One visitor's ticket and connection; use inside a running event loop.

    Attributes:
        goodbyes: sentences that the connection ended with. played: packets, float32 [960].
    """

    def __init__(self, desk: FrontDesk, name: str = "anna", choices: Choices = CHOICES) -> None:
        self.desk = desk
        self.name = name
        self.choices = choices
        self.peers = FakePeers({name: name})
        self.talk: Talk | None = None
        self.handler = CallHandler(desk, self.peers).copy()
        self.track = Track()
        self.handler._clear_queue = self.track.clear_queue
        self.goodbyes: list[str] = []
        self.played: list[Pcm] = []
        self.longest_ms = 0.0
        self.tasks: list[asyncio.Task[Any]] = []

    @property
    def session(self) -> Session:
        assert self.talk is not None and self.talk.session is not None
        return self.talk.session

    @property
    def end(self) -> tuple[str, str] | None:
        """How the talk ended: code and sentence."""
        return self.talk.ended if self.talk else None

    def ask(self) -> str:
        """A place at the desk; the ticket."""
        self.talk = self.desk.ask(self.name, "somewhere", self.choices)
        return self.talk.ticket.secret

    def start(self, ticket: str | None = None, microphone: Callable[[int], Pcm] | None = None) -> None:
        """Connects; ticket None: the page's box does not arrive. Microphone: packet number to float32 [960]."""
        current_context.set(Context(webrtc_id=self.name))
        self.tasks = [asyncio.create_task(self.handler.start_up()), asyncio.create_task(self._pump())]
        self.tasks.append(asyncio.create_task(self._play()))
        if microphone is not None:
            self.tasks.append(asyncio.create_task(self._speak(microphone)))
        if ticket is not None:
            self.bring(ticket)

    def bring(self, ticket: str) -> None:
        """The page's box comes, as gradio posts it."""
        self.handler.set_args(["__webrtc_value__", self.name, ticket])

    async def stop(self) -> None:
        """The connection is over."""
        await self.handler.shutdown()
        for task in self.tasks:
            task.cancel()
        done, left = await asyncio.wait(self.tasks, timeout=2) if self.tasks else (set(), set())
        errors = [task.exception() for task in done if not task.cancelled() and task.exception()]
        assert not errors, f"an exception got out of the handler: {errors}"
        assert not left, f"a cancelled task goes on: {left}"

    async def _pump(self) -> None:
        while True:
            emitted = await self.handler.emit()
            if isinstance(emitted, CloseStream):
                self.goodbyes.append(emitted.msg)
            elif emitted is not None:
                self._queue(*emitted)
            await asyncio.sleep(0)

    def _queue(self, rate: int, sound: Pcm, layout: str = "mono") -> None:
        """Cuts what was emitted, float32 [channels, n], into packets; both channels carry the same."""
        assert rate == WIRE_RATE_HZ and sound.dtype == np.float32
        assert sound.shape[0] == {"mono": 1, "stereo": 2}[layout] and np.array_equal(sound[0], sound[-1])
        for packet in sound[0].reshape(-1, PACKET_SAMPLES):
            self.track.queue.put_nowait(packet)
        self.longest_ms = max(self.longest_ms, self.track.queue.qsize() * 1000 * PACKET_SECONDS)

    async def _play(self) -> None:
        async for _ in beats():
            if not self.track.queue.empty():
                self.played.append(self.track.queue.get_nowait())

    async def _speak(self, microphone: Callable[[int], Pcm]) -> None:
        async for number in beats():
            packet = int16_from_float(microphone(number))
            await self.handler.receive((WIRE_RATE_HZ, packet.reshape(1, -1)))


@contextlib.asynccontextmanager
async def open_desk(
    engine: Engine,
    limits: Limits | None = None,
    call_limits: CallLimits | None = None,
    own_voices: OwnVoices | None = None,
    recordings: Recordings | None = None,
) -> AsyncIterator[FrontDesk]:
    """A front desk that looks after its talks until the block is left."""
    desk = FrontDesk(engine, Metrics(), limits, call_limits, own_voices, recordings)
    try:
        yield desk
    finally:
        await desk.close()


async def talking(call: Call, microphone: Callable[[int], Pcm] | None = None) -> None:
    """Asks, connects with a silent microphone, or this one, and waits until the talk runs."""
    call.start(call.ask(), microphone or hush)
    await eventually(lambda: call.talk and call.talk.session and is_talking(call.session), what="talking")


async def beats() -> Any:
    """0, 1, 2, ... every 20 ms on a steady clock."""
    began, number = time.monotonic(), 0
    while True:
        yield number
        number += 1
        await asyncio.sleep(max(0.0, began + number * PACKET_SECONDS - time.monotonic()))


async def eventually(condition: Callable[[], object], seconds: float = 20.0, what: str = "") -> float:
    """Waits until a condition holds; returns how long that took, fails after `seconds`."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.005)
    return time.monotonic() - began


def tone(hz: float, loudness: float = 0.5) -> Callable[[int], Pcm]:
    """A microphone that hears a steady tone."""

    def packet(number: int) -> Pcm:
        at = np.arange(number * PACKET_SAMPLES, (number + 1) * PACKET_SAMPLES) / WIRE_RATE_HZ
        return (loudness * np.sin(2 * np.pi * hz * at)).astype(np.float32)

    return packet


def hush(number: int) -> Pcm:
    """A microphone in a silent room."""
    return np.zeros(PACKET_SAMPLES, dtype=np.float32)


def play_out(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a story on an event loop that reports what nobody awaited."""
    failures: list[dict[str, Any]] = []

    async def told() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        await story()

    asyncio.run(told())
    if failures:
        pytest.fail(f"the loop reported {failures}")
