"""Telephone lines and rooms of the evaluation, made otherwise than training's.

In: float32 [n] at 24 kHz. Out: the same as it arrives. Must not know: who speaks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import butter, sosfilt

from training.speech.levels import SAMPLE_RATE, Sound, speech_level


@dataclass(frozen=True)
class Line:
    """Attributes: band in Hz, or None; noise_db: under the speech; level_db: of the speech."""

    name: str
    band: tuple[float, float] | None
    noise_db: float
    level_db: float

    def voice(self, pcm: Sound) -> Sound:
        """An utterance at this line's level, through its band."""
        if self.band:
            pcm = np.asarray(sosfilt(butter(4, self.band, "bandpass", fs=SAMPLE_RATE, output="sos"), pcm), np.float32)
        _, rms = speech_level(pcm)
        return np.clip(pcm * np.float32(10 ** (self.level_db / 20) / max(rms, 1e-4)), -1, 1)

    def noise(self, samples: int, rng: np.random.Generator) -> Sound:
        """The line's noise, there all the time."""
        loud = 10 ** ((self.level_db - self.noise_db) / 20)
        return (rng.standard_normal(samples) * loud).astype(np.float32)


LINES = (
    Line("quiet", None, 38.0, -24.0),
    Line("noisy", None, 20.0, -22.0),
    Line("telephone", (300.0, 3400.0), 30.0, -25.0),
    Line("soft", None, 28.0, -32.0),
)
