"""The pitch of a voice, by autocorrelation."""

from __future__ import annotations

import numpy as np

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm

WINDOW_SAMPLES = 1200  # 50 ms
LOWEST_HZ, HIGHEST_HZ = 60, 400
LOUD_RMS = 0.02
VOICED = 0.5  # of the energy that a period later is still alike


def median_pitch_hz(pcm: Pcm) -> float:
    """Median over the loud, voiced windows of float32 [samples]."""
    windows = pcm[: len(pcm) // WINDOW_SAMPLES * WINDOW_SAMPLES].reshape(-1, WINDOW_SAMPLES)
    loud = windows[np.sqrt((windows**2).mean(axis=1)) > LOUD_RMS]
    pitches = [pitch for window in loud if (pitch := _pitch_hz(window)) is not None]
    assert len(pitches) > 20, "there is hardly any voice in this sound"
    return float(np.median(pitches))


def _pitch_hz(window: Pcm) -> float | None:
    alike = np.correlate(window, window, "full")[WINDOW_SAMPLES - 1 :]
    first, last = SAMPLE_RATE_HZ // HIGHEST_HZ, SAMPLE_RATE_HZ // LOWEST_HZ
    lag = first + int(np.argmax(alike[first:last]))
    return SAMPLE_RATE_HZ / lag if alike[lag] > VOICED * alike[0] else None
