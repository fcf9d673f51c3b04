"""What a measuring caller says: short bursts on four pitches in turn, and where each is heard again. Pure.

In: seconds and rates. Out: float32 pieces of 20 ms that repeat for ever, and the delay of every burst, in seconds.
A pitch comes back after 2.9 s only, so that a delay of up to two seconds has one reading. A little noise lies under
it all, as under any microphone's sound. Must not know: sockets, calls, clocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm

PITCHES_HZ = (900.0, 1500.0, 2100.0, 2700.0)
GAP_SECONDS = 0.73  # 10 ms off a whole number of frames: the bursts meet every phase of a frame
BURSTS = 16
LOOP_SECONDS = BURSTS * GAP_SECONDS
BURST_SECONDS = 0.02
FIRST_SECONDS = 0.4
LOUDNESS = 0.5
NOISE_RMS = 0.002
SPEECH_RMS = 0.05
LONGEST_SECONDS = 2.0
HEARD_PART = 0.25  # of the burst's own loudness
SEARCH_RATE_HZ = SAMPLE_RATE_HZ // 2


@dataclass(frozen=True)
class Burst:
    """The middle of one burst, in seconds of the caller's speech, and its pitch."""

    at_seconds: float
    pitch_hz: float


def bursts_until(seconds: float) -> list[Burst]:
    """All bursts that are said whole within so many seconds."""
    found: list[Burst] = []
    while (at := FIRST_SECONDS + len(found) * GAP_SECONDS) + BURST_SECONDS <= seconds:
        found.append(Burst(at, PITCHES_HZ[len(found) % len(PITCHES_HZ)]))
    return found


class Mouth:
    """One caller's voice.

    Args:
        rate_hz: 24,000, or 48,000 for WebRTC. speech: float32 [n] at 24 kHz, said over and over beneath the bursts.
    """

    def __init__(self, rate_hz: int, speech: Pcm | None = None, seed: int = 0) -> None:
        self.piece_samples = rate_hz // 50
        samples = round(LOOP_SECONDS * rate_hz)
        noise = np.random.default_rng(seed).standard_normal(samples, dtype=np.float32)
        self._loop: Pcm = noise * np.float32(NOISE_RMS)
        for number in range(BURSTS):
            middle = FIRST_SECONDS + number * GAP_SECONDS
            wave = _burst(PITCHES_HZ[number % len(PITCHES_HZ)], rate_hz)
            at = (round(middle * rate_hz) - len(wave) // 2 + np.arange(len(wave))) % samples
            self._loop[at] += wave
        self._speech = None if speech is None else _loop_of(speech, rate_hz)

    def piece(self, number: int) -> Pcm:
        """float32 [20 ms], the number-th since the beginning."""
        piece = _part(self._loop, number, self.piece_samples)
        if self._speech is not None:
            piece += _part(self._speech, number, self.piece_samples)
        return piece


def _burst(pitch_hz: float, rate_hz: int) -> Pcm:
    length = round(BURST_SECONDS * rate_hz)
    wave = np.hanning(length) * np.sin(2 * np.pi * pitch_hz * np.arange(length) / rate_hz)
    return np.asarray(LOUDNESS * wave, dtype=np.float32)


def _loop_of(speech: Pcm, rate_hz: int) -> Pcm:
    import soxr

    loud = float(np.sqrt(np.mean(np.square(speech)))) or 1.0
    quiet = speech * np.float32(SPEECH_RMS / loud)
    return np.asarray(soxr.resample(quiet, SAMPLE_RATE_HZ, rate_hz), dtype=np.float32)


def _part(loop: Pcm, number: int, samples: int) -> Pcm:
    """A copy."""
    at = (number * samples + np.arange(samples)) % len(loop)
    return np.asarray(loop[at], dtype=np.float32)


def delays_seconds(bursts: list[Burst], heard: Pcm) -> list[float | None]:
    """How long after it was said each burst is heard in float32 [n] at 24 kHz; None for one that is not."""
    track = heard[::2]  # all pitches lie far below a quarter of the rate
    return [_delay(burst, track) for burst in bursts]


def _delay(burst: Burst, track: Pcm) -> float | None:
    shape: npt.NDArray[np.float64] = np.hanning(round(BURST_SECONDS * SEARCH_RATE_HZ)).astype(np.float64)
    first = round(burst.at_seconds * SEARCH_RATE_HZ) - len(shape) // 2
    window = track[first : first + round(LONGEST_SECONDS * SEARCH_RATE_HZ)]
    if len(window) < len(shape):
        return None
    strength = _strength(window, burst.pitch_hz, shape)
    peak = int(np.argmax(strength))
    own = LOUDNESS / 2 * float(np.sum(shape**2))
    return peak / SEARCH_RATE_HZ if strength[peak] >= HEARD_PART * own else None


def _strength(window: Pcm, pitch_hz: float, shape: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How much of a burst of this pitch begins at each sample: a matched filter's magnitude."""
    turned = window * np.exp(-2j * np.pi * pitch_hz * np.arange(len(window)) / SEARCH_RATE_HZ)
    size = 1 << (len(window) + len(shape)).bit_length()
    product = np.fft.ifft(np.fft.fft(turned, size) * np.conj(np.fft.fft(shape, size)))
    return np.abs(product[: len(window) - len(shape) + 1])
