"""Trims an utterance to its speech and brings the speech to one level.

In: float32 [n] at any rate. Out: float32 [m] at 24 kHz, and how much was cut in front.
Must not know: who speaks.
"""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt
from scipy.signal import resample_poly

Sound = npt.NDArray[np.float32]

SAMPLE_RATE = 24_000
LEVEL_DB = -24.0  # RMS of the parts that are speech
BLOCK = 480  # 20 ms
QUIET_SHARE = 0.03  # of the loudest block: below it is no speech
KEPT_BEFORE, KEPT_AFTER = 960, 1440  # samples around the speech


def to_24k(pcm: Sound, rate: int) -> Sound:
    """Another rate to 24 kHz."""
    if rate == SAMPLE_RATE:
        return pcm.astype(np.float32)
    common = gcd(rate, SAMPLE_RATE)
    return np.asarray(resample_poly(pcm, SAMPLE_RATE // common, rate // common), dtype=np.float32)


def speech_level(pcm: Sound) -> tuple[npt.NDArray[np.intp], float]:
    """Indices of the 20 ms blocks that are speech, and their RMS; none where all is silent."""
    blocks = pcm[: len(pcm) // BLOCK * BLOCK].reshape(-1, BLOCK)
    loudness = np.sqrt(np.maximum(1e-12, (blocks.astype(np.float64) ** 2).mean(1)))
    active = np.flatnonzero(loudness > max(1e-4, loudness.max(initial=0.0) * QUIET_SHARE))
    return active, float(np.sqrt((loudness[active] ** 2).mean())) if len(active) else 0.0


def trimmed(pcm: Sound) -> tuple[Sound, int]:
    """The speech at -24 dB with a little air around it, and how many samples were cut in front."""
    active, rms = speech_level(pcm)
    if not len(active):
        return pcm, 0
    first = max(0, int(active[0]) * BLOCK - KEPT_BEFORE)
    last = min(len(pcm), (int(active[-1]) + 1) * BLOCK + KEPT_AFTER)
    scaled = pcm[first:last] * np.float32(10 ** (LEVEL_DB / 20) / rms)
    return np.clip(scaled, -1.0, 1.0), first
