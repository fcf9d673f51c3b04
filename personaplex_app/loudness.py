"""Loudness by BS.1770, for voices that become prompts.

In and out: mono float32 at 24 kHz.
Must not know: files, torch.
"""

from __future__ import annotations

import warnings

import numpy as np

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm
from personaplex_app.errors import InvalidInput

VOICE_LUFS = -24.0
SHORTEST_SECONDS = 0.4  # one block of the meter


def normalize_loudness(pcm: Pcm, target_lufs: float = VOICE_LUFS) -> Pcm:
    """Brings float32 [samples] to the target loudness.

    Raises InvalidInput for a clip shorter than 0.4 s, silent, or with samples that are not numbers.
    """
    import pyloudnorm

    if len(pcm) < SHORTEST_SECONDS * SAMPLE_RATE_HZ:
        raise InvalidInput(f"The voice clip is {len(pcm) / SAMPLE_RATE_HZ:.2f} s long; at least {SHORTEST_SECONDS} s.")
    samples = pcm.astype(np.float64)
    if not np.isfinite(samples).all():
        raise InvalidInput("The voice clip holds samples that are not numbers.")
    loudness = pyloudnorm.Meter(SAMPLE_RATE_HZ).integrated_loudness(samples)
    if not np.isfinite(loudness):
        raise InvalidInput("The voice clip is silent.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Possible clipped samples")
        louder = pyloudnorm.normalize.loudness(samples, loudness, target_lufs)
    return np.asarray(louder, dtype=np.float32)
