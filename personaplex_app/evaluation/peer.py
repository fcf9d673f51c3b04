"""An aiortc peer that speaks Opus with the server: the browser's end of a call.

In: a mouth's pieces. Out: what it hears, with the moment it came. Must not know: HTTP, gradio, what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from fractions import Fraction
from typing import Any

import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCIceServer,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from personaplex_app.audio import int16_from_float
from personaplex_app.client.pace import PIECE_SECONDS, Pace
from personaplex_app.errors import ServerFault
from personaplex_app.evaluation.calls import Listening
from personaplex_app.evaluation.markers import Mouth
from personaplex_app.evaluation.page_wire import PageWire

RATE_HZ = 48_000
CONNECT_SECONDS = 15.0


class Microphone(MediaStreamTrack):  # type: ignore[misc]
    """The mouth as a track: a piece when its 20 ms are over, on an absolute schedule."""

    kind = "audio"

    def __init__(self, mouth: Mouth, pace: Pace) -> None:
        super().__init__()
        self._mouth = mouth
        self._pace = pace

    async def recv(self) -> AudioFrame:
        """The next piece, once it is due."""
        if not self._pace.pieces:  # the path has only just opened
            self._pace.start = time.monotonic() + PIECE_SECONDS
        await self._pace.wait()
        number = self._pace.pieces - 1
        pcm = int16_from_float(self._mouth.piece(number))
        frame = AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE_HZ, number * len(pcm), Fraction(1, RATE_HZ)
        return frame


class Peer:
    """One connection.

    Attributes:
        listening: its mouth's schedule and its ear.
    """

    def __init__(self, mouth: Mouth, ice_servers: list[dict[str, Any]]) -> None:
        self.listening = Listening(Pace(start=time.monotonic() + PIECE_SECONDS))
        servers = [RTCIceServer(**_known(server)) for server in ice_servers]
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=servers))
        self._peer.addTrack(Microphone(mouth, self.listening.pace))
        self._channel = self._peer.createDataChannel("text")
        self._connected = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self, wire: PageWire, ticket: str) -> None:
        """Offers, and brings the ticket when the server asks for it; raises NoCapacity or ServerFault."""
        self._peer.on("track", lambda track: self._spawn(self._hear(track)))
        self._peer.on("connectionstatechange", self._look)
        self._channel.on("open", lambda: self._channel.send("handshake"))
        self._channel.on("message", lambda text: self._obey(text, wire, ticket))
        await self._peer.setLocalDescription(await self._peer.createOffer())
        answer = await wire.offer(self._peer.localDescription.sdp)
        await self._peer.setRemoteDescription(RTCSessionDescription(sdp=answer, type="answer"))
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._connected.wait()
        except TimeoutError:
            raise ServerFault("WebRTC did not connect in time.", code="webrtc_not_connected") from None

    def _look(self) -> None:
        if self._peer.connectionState == "connected":
            self._connected.set()

    def _obey(self, text: Any, wire: PageWire, ticket: str) -> None:
        with contextlib.suppress(ValueError, AttributeError):
            if json.loads(text).get("type") == "send_input":
                self._spawn(wire.send_inputs(ticket))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hear(self, track: Any) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                at = time.monotonic()
                pcm = frame.to_ndarray().reshape(-1, len(frame.layout.channels))[::2, 0]
                self.listening.hear((pcm / np.float32(32768)).astype(np.float32), at)

    async def packets_lost(self) -> int:
        """RTP packets that never came here."""
        stats = await self._peer.getStats()
        return sum(int(report.packetsLost) for report in stats.values() if report.type == "inbound-rtp")

    async def close(self) -> None:
        """Hangs up."""
        await self._peer.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _known(server: dict[str, Any]) -> dict[str, Any]:
    return {name: server[name] for name in ("urls", "username", "credential") if name in server}
