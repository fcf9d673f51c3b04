"""What an echo did to a voice: for every piece of what came back, how like it is to what was said, and how late."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from support.rtc_peer import PACKET_SAMPLES, RATE_HZ, Microphone

from personaplex_app.audio import Pcm

PIECE_SAMPLES = 15 * PACKET_SAMPLES  # 300 ms
LONGEST_SECONDS = 1.5


@dataclass(frozen=True)
class Echo:
    """float [pieces]: the best correlation with what was said, and the delay at which it is found."""

    correlations: np.ndarray
    delays_ms: np.ndarray

    @property
    def growth_ms(self) -> float:
        """How much later the last third is than the first."""
        third = len(self.delays_ms) // 3
        return float(np.median(self.delays_ms[-third:]) - np.median(self.delays_ms[:third]))


def gliding_voice(seconds: float) -> Pcm:
    """A voice at 48 kHz that glides and swells, so that no piece of it is like another."""
    at = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    pitch = 140 + 30 * np.sin(2 * np.pi * 0.9 * at) + 25 * np.sin(2 * np.pi * 0.23 * at + 1)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE_HZ
    sound = sum(np.sin(phase * harmonic) / harmonic for harmonic in range(1, 8))
    return (0.15 * sound * (0.6 + 0.4 * np.sin(2 * np.pi * 2.7 * at))).astype(np.float32)


def playing(pcm: Pcm) -> Microphone:
    """A microphone that hears it."""
    return lambda number: pcm[number * PACKET_SAMPLES : (number + 1) * PACKET_SAMPLES]


def measure_echo(said: Pcm, began: float, heard: list[Pcm], arrived: list[float]) -> Echo:
    """Looks for every piece of what was heard in what had been said by then.

    Args:
        began: when the first sample was said. heard, arrived: packets of float32 [960], and when each came.
    """
    sound = np.concatenate(heard)
    found = []
    for start in range(0, len(sound) - PIECE_SAMPLES + 1, PIECE_SAMPLES):
        came_at = arrived[(start + PIECE_SAMPLES) // PACKET_SAMPLES - 1] - began
        last = int(came_at * RATE_HZ)
        first = last - PIECE_SAMPLES - int(LONGEST_SECONDS * RATE_HZ)
        if first >= 0 and last <= len(said):
            likeness = _likeness(said[first:last], sound[start : start + PIECE_SAMPLES])
            at = int(np.argmax(likeness))
            said_at = (first + at + PIECE_SAMPLES) / RATE_HZ
            found.append((likeness[at], 1000 * (came_at - said_at)))
    correlations, delays = zip(*found, strict=True)
    return Echo(np.array(correlations), np.array(delays))


def _likeness(where: Pcm, piece: Pcm) -> np.ndarray:
    """The correlation of the piece with every stretch of its length."""
    count = len(where) - len(piece) + 1
    size = 1 << (len(where) + len(piece)).bit_length()
    product = np.fft.irfft(np.fft.rfft(where, size) * np.conj(np.fft.rfft(piece, size)), size)[:count]
    energy = np.concatenate([[0.0], np.cumsum(where.astype(np.float64) ** 2)])
    energy = (energy[len(piece) :] - energy[: -len(piece)])[:count]
    return product / np.sqrt(energy * np.sum(piece.astype(np.float64) ** 2) + 1e-9)
