"""Doubling and halving the rate between the browser's 48 kHz and the model's 24 kHz, streaming, 0.65 ms of delay.

In and out: float32 pieces of any even length. The state is the filter's tail; nothing is looked ahead.
Must not know: frames, the web.
"""

from __future__ import annotations

import numpy as np

from personaplex_app.audio import Pcm

TAPS = 63


def _kernel() -> Pcm:
    """A windowed-sinc low pass at a quarter of the high rate, unit gain at 0 Hz."""
    at = np.arange(TAPS) - TAPS // 2
    taps = 0.5 * np.sinc(at / 2) * np.kaiser(TAPS, 8.0)
    return np.asarray(taps / taps.sum(), dtype=np.float32)


_TAPS = _kernel()


class HalveRate:
    """48 kHz to 24 kHz."""

    def __init__(self) -> None:
        self._tail: Pcm = np.zeros(TAPS - 1, dtype=np.float32)

    def push(self, pcm: Pcm) -> Pcm:
        """float32 [2n] to float32 [n]."""
        if not len(pcm):  # numpy would take the filter's tail for the sound
            return pcm
        joined = np.concatenate([self._tail, pcm])
        self._tail = joined[len(joined) - (TAPS - 1) :]
        return np.convolve(joined, _TAPS, mode="valid")[::2].astype(np.float32)


class DoubleRate:
    """24 kHz to 48 kHz."""

    def __init__(self) -> None:
        self._tail: Pcm = np.zeros(TAPS - 1, dtype=np.float32)

    def push(self, pcm: Pcm) -> Pcm:
        """float32 [n] to float32 [2n]."""
        if not len(pcm):
            return pcm
        spread = np.zeros(2 * len(pcm), dtype=np.float32)
        spread[::2] = 2.0 * pcm
        joined = np.concatenate([self._tail, spread])
        self._tail = joined[len(joined) - (TAPS - 1) :]
        return np.convolve(joined, _TAPS, mode="valid").astype(np.float32)
