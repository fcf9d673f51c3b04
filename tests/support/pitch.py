"""The pitch of a voice, by autocorrelation."""

from __future__ import annotations

import numpy as np

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm

WINDOW_SAMPLES = 1200  # 50 ms
LOWEST_HZ, HIGHEST_HZ = 60, 400
LOUD = 0.3  # of the level of the loudest tenth
VOICED = 0.5  # so much alike is a window to itself one period later


def median_pitch_hz(pcm: Pcm) -> float:
    """Median over the loud, voiced windows of float32 [samples]."""
    windows = pcm[: len(pcm) // WINDOW_SAMPLES * WINDOW_SAMPLES].reshape(-1, WINDOW_SAMPLES)
    level = np.sqrt((windows**2).mean(axis=1))
    loud = windows[level > LOUD * np.percentile(level, 90)]
    pitches = [pitch for window in loud if (pitch := _pitch_hz(window)) is not None]
    assert len(pitches) > 20, "there is hardly any voice in this sound"
    return float(np.median(pitches))


def _pitch_hz(window: Pcm) -> float | None:
    alike = np.correlate(window, window, "full")[WINDOW_SAMPLES - 1 :]
    alike = alike / np.arange(WINDOW_SAMPLES, 0, -1) * WINDOW_SAMPLES  # later lags compare fewer samples
    first, last = SAMPLE_RATE_HZ // HIGHEST_HZ, SAMPLE_RATE_HZ // LOWEST_HZ
    lag = first + int(np.argmax(alike[first:last]))
    return SAMPLE_RATE_HZ / lag if alike[lag] > VOICED * alike[0] else None
