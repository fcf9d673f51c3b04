"""How the loudness of two sounds changes, band by band: what stays of a sound on its way through a room. Pure.

In: frames of both sounds, float32 [1920] at 24 kHz, in order. Out: a row each 10 ms: by how many decibels above the
noise each band grew or fell within 20 ms, and the power. Must not know: what they are compared for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from personaplex_app.audio import FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm

HOP_SAMPLES = 240
HOP_MS = 1000 * HOP_SAMPLES / SAMPLE_RATE_HZ
HOPS = FRAME_SAMPLES // HOP_SAMPLES  # a frame
WINDOW_SAMPLES = 2 * HOP_SAMPLES
BANDS = 10
LOWEST_HZ, HIGHEST_HZ = 150, 6400
BACK_HOPS = 2  # what a row is compared with
MOST_DB = 6.0  # a change counts as no more, or the loudest voice would count alone
OVER_FLOOR = 4.0  # what lies less above the noise hardly counts
FLOOR_GROWS = 1.03  # a frame, where the noise does
LOWEST_FLOOR = np.array([[3e-10], [3e-8]], dtype=np.float32)  # of a band, heard and spoken

Rows: TypeAlias = npt.NDArray[np.float32]


def _bands() -> Rows:
    hz = np.fft.rfftfreq(WINDOW_SAMPLES, 1 / SAMPLE_RATE_HZ)
    edges = np.geomspace(LOWEST_HZ, HIGHEST_HZ, BANDS + 1)
    inside = (hz[:, None] >= edges[:-1]) & (hz[:, None] < edges[1:])
    return np.asarray(inside * 2 / (WINDOW_SAMPLES * np.square(_WINDOW).sum()), dtype=np.float32)


_WINDOW = np.hanning(WINDOW_SAMPLES).astype(np.float32)
_BANDS = _bands()


@dataclass(frozen=True)
class Changes:
    """A frame's rows.

    Attributes:
        heard, spoken: changes in dB, [8, bands]. powers: of both, heard first and without its noise, [2, 8].
    """

    heard: Rows
    spoken: Rows
    powers: Rows


class Envelopes:
    """Follows a heard and a spoken sound."""

    def __init__(self) -> None:
        self._tails: Rows = np.zeros((2, WINDOW_SAMPLES - HOP_SAMPLES), dtype=np.float32)
        self._floors: Rows = np.full((2, BANDS), 1e-6, dtype=np.float32)
        self._last: Rows = np.zeros((2, BACK_HOPS, BANDS), dtype=np.float32)

    def saw(self, heard: Pcm, spoken: Pcm) -> Changes:
        """The next frame of both."""
        pcm = np.concatenate([self._tails, np.stack([heard, spoken])], axis=1)
        self._tails = pcm[:, -HOP_SAMPLES:]
        windows = np.lib.stride_tricks.sliding_window_view(pcm, WINDOW_SAMPLES, axis=1)[:, ::HOP_SAMPLES]
        spectra = np.fft.rfft(windows * _WINDOW, axis=2)
        powers = (np.square(spectra.real) + np.square(spectra.imag)).astype(np.float32) @ _BANDS
        self._floors = np.maximum(np.minimum(self._floors * FLOOR_GROWS, powers.min(axis=1)), LOWEST_FLOOR)
        levels = 10 * np.log10(1 + powers / (OVER_FLOOR * self._floors[:, None]))
        rows = np.concatenate([self._last, levels], axis=1)
        self._last = rows[:, -BACK_HOPS:]
        changes = np.clip(rows[:, BACK_HOPS:] - rows[:, :-BACK_HOPS], -MOST_DB, MOST_DB)
        totals = np.maximum(powers - self._floors[:, None], 0).sum(axis=2)
        return Changes(changes[0], changes[1], totals)
