"""A pacer's line on a virtual clock: frames come when they are told to, and every 20 ms a packet is played."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from personaplex_app.audio import FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm, silence
from personaplex_app.web.pacing import PACKET_MS, SpokenPacer

LOUDNESS = 0.3


def tone_frames(hz: float = 225.0) -> Iterator[Pcm]:
    """One tone without a seam, float32 [1920] after float32 [1920]."""
    start = 0
    while True:
        at = np.arange(start, start + FRAME_SAMPLES) / SAMPLE_RATE_HZ
        yield (LOUDNESS * np.sin(2 * np.pi * hz * at)).astype(np.float32)
        start += FRAME_SAMPLES


def talk_frames(seed: int) -> Iterator[Pcm]:
    """Phrases of one to four seconds of noise, as loud as speech, with pauses of 0.3 to 1.5 seconds; pauses hiss."""
    random = np.random.default_rng(seed)
    while True:
        for loudness, frames in ((0.1, random.integers(12, 50)), (0.001, random.integers(4, 19))):
            for _ in range(frames):
                yield (loudness * random.standard_normal(FRAME_SAMPLES)).astype(np.float32)


def arrivals_ms(frames: int, period_ms: float, jitter_ms: float, stalls: dict[float, float], seed: int) -> list[float]:
    """When frames come: late at random (exponential), in order, and held back while a stall (from: to) lasts."""
    lateness = np.random.default_rng(seed).exponential(jitter_ms, frames) if jitter_ms else np.zeros(frames)
    times = np.arange(frames) * period_ms + lateness
    for begin, end in stalls.items():
        times = np.where((times >= begin) & (times < end), end, times)
    return list(np.maximum.accumulate(times))


@dataclass
class Line:
    """A pacer, the sound that waits behind it, and all that was sent.

    Attributes:
        waits_ms: what waited when each frame came. longest_ms: the most that ever waited, the frame included.
    """

    pacer: SpokenPacer = field(default_factory=SpokenPacer)
    waiting_ms: float = 0.0
    longest_ms: float = 0.0
    waits_ms: list[float] = field(default_factory=list)
    sent: list[Pcm] = field(default_factory=lambda: [silence(2)])

    def frame(self, pcm: Pcm) -> None:
        """A frame comes."""
        self.waits_ms.append(self.waiting_ms)
        piece = self.pacer.frame(pcm, self.waiting_ms)
        if piece is not None:
            self._send(piece)

    def packet_passes(self) -> None:
        """20 ms are played; where there is nothing, the gap is filled first."""
        if self.waiting_ms < PACKET_MS:
            self._send(self.pacer.fill())
        self.waiting_ms -= PACKET_MS

    def run(self, frames: Iterator[Pcm], times_ms: list[float], until_ms: float | None = None) -> None:
        """Frames that come at their times, beside packets that are played every 20 ms from 0 on."""
        coming = iter(times_ms)
        due = next(coming, None)
        for packet in range(int((until_ms or times_ms[-1] + FRAME_MS) / PACKET_MS)):
            while due is not None and due <= packet * PACKET_MS:
                self.frame(next(frames))
                due = next(coming, None)
            self.packet_passes()

    def _send(self, piece: Pcm) -> None:
        self.sent.append(piece)
        self.waiting_ms += 1000 * len(piece) / SAMPLE_RATE_HZ
        self.longest_ms = max(self.longest_ms, self.waiting_ms)

    @property
    def sound(self) -> Pcm:
        """All that was sent, float32 [n]."""
        return np.concatenate(self.sent)

    @property
    def largest_jump(self) -> float:
        """The largest step from a sample to the next."""
        return float(np.abs(np.diff(self.sound)).max())
