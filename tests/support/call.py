"""A call without a browser: what FastRTC does with our handler, done by hand, at the pace of time.

The microphone sends a packet each 20 ms, the pump calls `emit` as fast as it returns, the player takes a packet each
20 ms from the queue whose depth the handler reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from fastrtc import AdditionalOutputs, CloseStream
from fastrtc.utils import Context, current_context
from support.engine import is_talking

from personaplex_app.audio import Pcm, int16_from_float
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.session import Session
from personaplex_app.web.call_view import CallView
from personaplex_app.web.calls import Calls
from personaplex_app.web.form import FIELDS
from personaplex_app.web.handler import WIRE_RATE_HZ, CallHandler

PACKET_SAMPLES = WIRE_RATE_HZ // 50
PACKET_SECONDS = 0.02
GOOD = {
    "prompt": "",
    "voice": "none",
    "audio_temperature": 0.8,
    "text_temperature": 0.7,
    "audio_top_k": 250,
    "text_top_k": 25,
    "repetition_penalty": 1.0,
    "seed": "7",
}


def args(**changed: Any) -> list[Any]:
    """The page's values as gradio posts them."""
    return [{**GOOD, **changed}[name] for name in FIELDS]


class Track:
    """FastRTC's side of the output: a queue of packets of 20 ms."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Pcm] = asyncio.Queue()

    def clear_queue(self) -> None:
        """FastRTC hands this bound method to the handler."""


class Call:
    """One visitor's connection; use inside a running event loop."""

    def __init__(self, engine: Engine, calls: Calls | None = None, name: str = "call-1") -> None:
        self.calls = calls or Calls()
        self.name = name
        self.closed_peers: list[str] = []
        self.handler = CallHandler(engine, self.calls, self._close_peer).copy()
        self.track = Track()
        self.handler._clear_queue = self.track.clear_queue
        self.goodbyes: list[str] = []
        self.views: list[CallView] = []
        self.played: list[Pcm] = []
        self.longest_ms = 0.0
        self.tasks: list[asyncio.Task[Any]] = []
        current_context.set(Context(webrtc_id=name))

    async def _close_peer(self, webrtc_id: str) -> None:
        self.closed_peers.append(webrtc_id)
        await self.handler.shutdown()

    @property
    def session(self) -> Session:
        assert self.handler._session is not None
        return self.handler._session

    @property
    def shown(self) -> CallView:
        """What the handler last sent to the page."""
        return self.views[-1] if self.views else CallView()

    @property
    def view(self) -> CallView:
        view = self.calls.view(self.name)
        assert view is not None
        return view

    def start(self, values: list[Any] | None = None, microphone: Callable[[int], Pcm] | None = None) -> None:
        """Connects; values None: the page's settings do not arrive. Microphone: packet number to float32 [960]."""
        self.tasks = [asyncio.create_task(self.handler.start_up()), asyncio.create_task(self._pump())]
        self.tasks.append(asyncio.create_task(self._play()))
        if microphone is not None:
            self.tasks.append(asyncio.create_task(self._speak(microphone)))
        if values is not None:
            self.handler.set_args(["__webrtc_id__", *values])

    def move(self, **changed: Any) -> None:
        """The visitor moves something on the page."""
        self.handler.set_args(["__webrtc_id__", *args(**changed)])

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
            elif isinstance(emitted, AdditionalOutputs):
                self.views += emitted.args
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


async def talking(call: Call, values: list[Any] | None = None) -> None:
    """Connects with a silent microphone and waits until the talk runs."""
    call.start(values or args(), hush)
    await eventually(lambda: call.handler._session and is_talking(call.session), what="talking")


async def beats() -> Any:
    """0, 1, 2, ... every 20 ms on a steady clock."""
    began, number = time.monotonic(), 0
    while True:
        yield number
        number += 1
        await asyncio.sleep(max(0.0, began + number * PACKET_SECONDS - time.monotonic()))


async def eventually(condition: Callable[[], object], seconds: float = 5.0, what: str = "") -> float:
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
