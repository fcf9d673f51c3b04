"""Hibari as many speakers: a source-filter synthesizer, so pitch and formants can be moved; it knows its word starts.

In: a sentence, a `Speaker`. Out: float32 24 kHz, and for each word where it starts in seconds.
Must not know: who needs it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from training.speech.levels import Sound
from training.speech.phonemes import hibari, phonemes

DURATIONS = "/Clip_output_0"  # the network's own phoneme durations, in half frames
DURATION_SECONDS = 0.025
BINS = 601
SILENT_LOG = -9.0


@dataclass(frozen=True)
class Speaker:
    """Attributes: factors on pitch, formants and pace; seed of the noise."""

    pitch: float = 1.0
    formants: float = 1.0
    pace: float = 1.0
    seed: int = 0


@functools.cache
def _session() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    model = Path(hibari().model_path).read_bytes() + _one_more_output(DURATIONS)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _one_more_output(name: str) -> bytes:
    """Bytes that, put behind an ONNX file, add an output to its graph: protobuf merges a message that comes twice."""
    text = name.encode()
    value = b"\x0a" + bytes([len(text)]) + text  # ValueInfoProto.name = 1
    graph = b"\x62" + bytes([len(value)]) + value  # GraphProto.output = 12
    return b"\x3a" + bytes([len(graph)]) + graph  # ModelProto.graph = 7


def speak(text: str, speaker: Speaker) -> tuple[Sound, list[float]]:
    """The sentence as this speaker says it, and the start of every word in seconds."""
    from hibari import dsp

    spoken = phonemes(text)
    letters = [one for one in spoken if one in hibari().vocab]
    ids = hibari().ids(spoken)
    inputs = {"ids": np.array([ids], np.int64), "speed": np.array([speaker.pace], np.float32)}
    *outputs, durations = _session().run(None, inputs)
    harmonic, theta, noise, free, phase, pitch = (one[0] for one in outputs)
    if speaker.formants != 1.0:
        harmonic, noise, free = (_stretched(one, speaker.formants) for one in (harmonic, noise, free))
        theta, phase = (_moved(one, speaker.formants) for one in (theta, phase))
    rng = np.random.default_rng(speaker.seed)
    pcm = dsp.synth(harmonic, theta, noise, free, phase, pitch * speaker.pitch, rng)
    return pcm.astype(np.float32), _word_starts(letters, np.ravel(durations))


def _word_starts(letters: list[str], durations: npt.NDArray[np.float32]) -> list[float]:
    ends = np.concatenate([[0.0], np.cumsum(durations)]) * DURATION_SECONDS
    return [float(ends[1])] + [float(ends[at + 2]) for at, letter in enumerate(letters) if letter == " "]


def _sources(factor: float) -> npt.NDArray[np.float64]:
    """From which bin each bin takes its value when the spectrum is stretched."""
    return np.arange(BINS) / factor


def _stretched(log_spectrum: Sound, factor: float) -> Sound:
    """[601, F] log magnitudes, stretched along frequency by linear interpolation; silent above the old end."""
    at = _sources(factor)
    below = np.minimum(at.astype(int), BINS - 2)
    share = np.minimum(at - below, 1.0).astype(np.float32)[:, None]
    moved = log_spectrum[below] * (1 - share) + log_spectrum[below + 1] * share
    moved[at > BINS - 1] = SILENT_LOG
    return moved


def _moved(angles: Sound, factor: float) -> Sound:
    """[601, F] phases, each taken from the nearest bin."""
    return angles[np.minimum(np.round(_sources(factor)).astype(int), BINS - 1)]
