"""Microphone and loudspeaker of this machine, through the package sounddevice where it is installed.

In: float32 at 24 kHz to play. Out: float32 pieces of 20 ms from the microphone. Must not know: talks, sockets.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from types import TracebackType
from typing import Any

import numpy as np

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm
from personaplex_app.errors import InvalidInput

PIECE_SAMPLES = 480
MOST_WAITING_SAMPLES = SAMPLE_RATE_HZ  # a loudspeaker that stands still gets the newest second once it goes on
NOT_INSTALLED = (
    "Live sound needs the package sounddevice and the library PortAudio: pip install sounddevice, and on Debian "
    "apt-get install libportaudio2. Without them give files: --in F.wav --out F.wav."
)


class LiveSound:
    """An open loudspeaker and, where asked for, a microphone; use as a context manager inside an event loop.

    Raises InvalidInput where there is no such package, or no such device.
    """

    def __init__(self, microphone: bool) -> None:
        try:
            import sounddevice
        except (ImportError, OSError):
            raise InvalidInput(NOT_INSTALLED) from None
        self._loop = asyncio.get_running_loop()
        self._said: asyncio.Queue[Pcm] = asyncio.Queue()
        self._waiting: deque[Pcm] = deque()
        self._lock = threading.Lock()
        options = {"samplerate": SAMPLE_RATE_HZ, "blocksize": PIECE_SAMPLES, "channels": 1, "dtype": "float32"}
        try:
            if microphone:
                self._stream = sounddevice.Stream(callback=self._both, latency="low", **options)
            else:
                self._stream = sounddevice.OutputStream(callback=self._out, latency="low", **options)
        except (sounddevice.PortAudioError, ValueError) as error:
            what = "microphone or loudspeaker" if microphone else "loudspeaker"
            raise InvalidInput(f"No {what} can be opened here: {error}. Give files: --in, --out.") from None

    def __enter__(self) -> LiveSound:
        self._stream.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stream.stop()
        self._stream.close()

    async def piece(self) -> Pcm:
        """The next 20 ms from the microphone, float32 [480]."""
        return await self._said.get()

    def play(self, pcm: Pcm) -> None:
        """Queues float32 [n]; what has waited for more than a second is dropped."""
        with self._lock:
            self._waiting.append(pcm)
            while sum(map(len, self._waiting)) > MOST_WAITING_SAMPLES:
                self._waiting.popleft()

    # The sound card's thread.

    def _both(self, said: Any, played: Any, frames: int, time: Any, status: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._said.put_nowait, said[:, 0].copy())
        self._out(played, frames, time, status)

    def _out(self, played: Any, frames: int, time: Any, status: Any) -> None:
        played[:, 0] = self._take(frames)

    def _take(self, samples: int) -> Pcm:
        with self._lock:
            joined = np.concatenate([np.zeros(0, dtype=np.float32), *self._waiting])
            self._waiting.clear()
            if len(joined) > samples:
                self._waiting.append(joined[samples:])
        return np.pad(joined[:samples], (0, max(0, samples - len(joined))))
