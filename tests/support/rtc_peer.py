"""An aiortc peer that plays a microphone and keeps what it hears; used inside a running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from av import AudioFrame

from personaplex_app.audio import Pcm, int16_from_float

RATE_HZ = 48_000
PACKET_SAMPLES = RATE_HZ // 50
Microphone = Callable[[int], Pcm]


def tone(hz: float, loudness: float = 0.3) -> Microphone:
    """A microphone that hears a steady tone."""

    def packet(number: int) -> Pcm:
        at = np.arange(number * PACKET_SAMPLES, (number + 1) * PACKET_SAMPLES) / RATE_HZ
        return (loudness * np.sin(2 * np.pi * hz * at)).astype(np.float32)

    return packet


class Playing(MediaStreamTrack):
    """A microphone, float32 [960] by packet number, one packet each 20 ms of a steady clock.

    Attributes:
        began: when its first sample was said, steady seconds.
    """

    kind = "audio"

    def __init__(self, microphone: Microphone) -> None:
        super().__init__()
        self._microphone = microphone
        self._number = 0
        self.began = 0.0

    async def recv(self) -> AudioFrame:
        """The next packet once the last of it is said."""
        self.began = self.began or time.monotonic()
        await asyncio.sleep(max(0.0, self.began + (self._number + 1) / 50 - time.monotonic()))
        pcm = int16_from_float(self._microphone(self._number))
        frame = AudioFrame.from_ndarray(pcm.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE_HZ, self._number * PACKET_SAMPLES, Fraction(1, RATE_HZ)
        self._number += 1
        return frame


class Peer:
    """One end of a call: offers or answers, plays a microphone, keeps what it hears.

    Attributes:
        heard: packets, float32 [960], in order. arrived: when each came, steady seconds.
    """

    def __init__(self, configuration: RTCConfiguration, microphone: Microphone) -> None:
        self.connection = RTCPeerConnection(configuration)
        self.playing = Playing(microphone)
        self.heard: list[Pcm] = []
        self.arrived: list[float] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.connection.addTrack(self.playing)
        self.connection.on("track", self._listen)

    def _listen(self, track: Any) -> None:
        self._tasks.append(asyncio.create_task(self._keep(track)))

    async def _keep(self, track: Any) -> None:
        with contextlib.suppress(Exception):  # aiortc ends a track by an error of its own
            while True:
                frame = await track.recv()
                self.arrived.append(time.monotonic())
                sound = frame.to_ndarray().reshape(-1, len(frame.layout.channels))[:, 0]
                self.heard.append(sound.astype(np.float32) / 32768)

    async def offer(self) -> RTCSessionDescription:
        """An offer with all its candidates."""
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return self.connection.localDescription

    async def answer(self, offer: RTCSessionDescription) -> RTCSessionDescription:
        """Takes an offer; the answer has all its candidates."""
        await self.connection.setRemoteDescription(offer)
        await self.connection.setLocalDescription(await self.connection.createAnswer())
        return self.connection.localDescription

    async def accept(self, answer: RTCSessionDescription) -> None:
        await self.connection.setRemoteDescription(answer)

    async def settled(self, seconds: float) -> str:
        """The connection's state once it is connected or failed, or after so long."""
        until = time.monotonic() + seconds
        while self.connection.connectionState not in ("connected", "failed", "closed") and time.monotonic() < until:
            await asyncio.sleep(0.02)
        return str(self.connection.connectionState)

    async def heard_for(self, seconds: float, within: float) -> Pcm:
        """All sound so far, once it lasts as long as asked; fails where it does not in time."""
        until = time.monotonic() + within
        while len(self.heard) < seconds * 50:
            assert time.monotonic() < until, f"{len(self.heard)} packets heard"
            await asyncio.sleep(0.02)
        return np.concatenate(self.heard)

    def path(self) -> tuple[str, str]:
        """The types of the two candidates in use, ours first: host, srflx, prflx or relay."""
        pair = self.connection.getTransceivers()[0].sender.transport.transport._connection._nominated[1]
        return pair.local_candidate.type, pair.remote_candidate.type

    async def close(self) -> None:
        await self.connection.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
