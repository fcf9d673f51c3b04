"""Sound in numbers: rates, the frame, PCM conversions and the frame assembler.

In and out: mono float32 arrays in [-1, 1] at 24 kHz, or int16 PCM at the borders.
Must not know: torch, files, the web.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SAMPLE_RATE_HZ = 24_000
FRAME_SAMPLES = 1_920
FRAME_SECONDS = FRAME_SAMPLES / SAMPLE_RATE_HZ
FRAME_MS = 1000 * FRAME_SECONDS
FRAME_RATE_HZ = 12.5

Pcm = npt.NDArray[np.float32]
Pcm16 = npt.NDArray[np.int16]


def silence(samples: int = FRAME_SAMPLES) -> Pcm:
    """float32 zeros, [samples]."""
    return np.zeros(samples, dtype=np.float32)


def float_from_int16(pcm: Pcm16) -> Pcm:
    """int16 PCM, any shape, to float32 in [-1, 1)."""
    return pcm.astype(np.float32) / 32768.0


def int16_from_float(pcm: Pcm) -> Pcm16:
    """float32 in [-1, 1], any shape, to int16; louder samples are clipped, never wrapped."""
    return (np.clip(pcm, -1.0, 32767 / 32768) * 32768.0).round().astype(np.int16)


def mono(pcm: npt.NDArray[np.floating]) -> Pcm:
    """[samples] or [samples, channels] to float32 [samples], the mean of the channels."""
    if pcm.ndim == 2:
        pcm = pcm.mean(axis=1)
    return np.ascontiguousarray(pcm, dtype=np.float32)


def split_frames(pcm: Pcm) -> npt.NDArray[np.float32]:
    """float32 [samples] to [T, 1920]; the last frame is filled up with silence."""
    frames = -(-len(pcm) // FRAME_SAMPLES)
    padded = np.zeros(frames * FRAME_SAMPLES, dtype=np.float32)
    padded[: len(pcm)] = pcm
    return padded.reshape(frames, FRAME_SAMPLES)


class FrameAssembler:
    """Collects pieces of any length and gives them back as whole frames of 1,920 samples."""

    def __init__(self) -> None:
        self._rest = silence(0)

    def push(self, pcm: Pcm) -> list[Pcm]:
        """Adds float32 [n]; returns the frames that became whole, oldest first."""
        joined = np.concatenate([self._rest, pcm])
        whole = len(joined) // FRAME_SAMPLES
        self._rest = joined[whole * FRAME_SAMPLES :]
        return [joined[i * FRAME_SAMPLES : (i + 1) * FRAME_SAMPLES] for i in range(whole)]

    @property
    def waiting_samples(self) -> int:
        """Samples that wait for their frame to become whole, 0 to 1,919."""
        return len(self._rest)
