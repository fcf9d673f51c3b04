"""A person who speaks is heard; silence, hum, hiss and a keyboard are not a person."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.speech import pause, speak

from personaplex_app.audio import FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm
from personaplex_app.speech_detector import SpeechDetector

ROOT = Path(__file__).parents[2]
SECONDS = 12
SENTENCE = "Good morning, could you tell me the way to the station?"
PIECE_SAMPLES = 480  # what a microphone's packet holds


def _found_at(pcm: Pcm, piece_samples: int = PIECE_SAMPLES) -> list[float]:
    """The seconds at which a fresh detector says that somebody speaks."""
    detector = SpeechDetector()
    starts = range(0, len(pcm), piece_samples)
    return [at / SAMPLE_RATE_HZ for at in starts if detector.heard(pcm[at : at + piece_samples])]


@pytest.mark.parametrize("loudness", [1.0, 0.2], ids=["near", "far"])
def test_speech_is_found_soon_and_only_while_it_lasts(loudness: float) -> None:
    sentence = speak(SENTENCE) * np.float32(loudness)
    found = _found_at(np.concatenate([pause(2), sentence, pause(3)]))
    length = len(sentence) / SAMPLE_RATE_HZ
    assert len(found) > 20 and 2.0 < found[0] < 2.7 and found[-1] < 2.0 + length + 0.5


@pytest.mark.parametrize("piece_samples", [7, 960, FRAME_SAMPLES, 10 * FRAME_SAMPLES])
def test_pieces_of_any_length_will_do(piece_samples: int) -> None:
    assert _found_at(speak("Hello, is anybody there?")[:SAMPLE_RATE_HZ], piece_samples)


def test_speech_in_a_noisy_room_is_found() -> None:
    hiss = np.random.default_rng(1).standard_normal(SECONDS * SAMPLE_RATE_HZ).astype(np.float32) * np.float32(0.005)
    words = speak(SENTENCE)
    hiss[SAMPLE_RATE_HZ : SAMPLE_RATE_HZ + len(words)] += words
    assert len(_found_at(hiss)) > 20


def _hum(count: int) -> Pcm:
    at = np.arange(count) / SAMPLE_RATE_HZ
    return sum(0.1 / k * np.sin(2 * np.pi * 50 * k * at) for k in (1, 2, 3, 4, 5))


def _hiss(count: int) -> Pcm:
    return 0.05 * np.random.default_rng(2).standard_normal(count)


def _fan(count: int) -> Pcm:
    """Noise that is louder the lower it is."""
    spectrum = np.fft.rfft(np.random.default_rng(3).standard_normal(count))
    spectrum /= np.maximum(np.fft.rfftfreq(count, 1 / SAMPLE_RATE_HZ), 20.0)
    noise = np.fft.irfft(spectrum, count)
    return 0.1 * noise / np.abs(noise).max()


def _keyboard(count: int) -> Pcm:
    """Keys that are struck eight times a second: a burst of noise of 8 ms, and a softer one as the key comes up."""
    random = np.random.default_rng(4)
    pcm = 0.0005 * random.standard_normal(count)
    burst = int(0.008 * SAMPLE_RATE_HZ)
    for at in range(0, count - 4 * burst, SAMPLE_RATE_HZ // 8):
        at += int(random.integers(0, 1_000))
        for start, loudness in ((at, 0.3), (at + 3 * burst, 0.1)):
            decay = np.exp(-np.arange(burst) / (burst / 4))
            pcm[start : start + burst] += loudness * decay * random.standard_normal(burst)
    return pcm[:count]


def _beep(count: int) -> Pcm:
    at = np.arange(count) / SAMPLE_RATE_HZ
    return 0.2 * np.sin(2 * np.pi * 1_000 * at) * (at % 1.0 < 0.2)


NO_SPEECH: dict[str, Callable[[int], Pcm]] = {
    "silence": np.zeros,
    "hum": _hum,
    "hiss": _hiss,
    "fan": _fan,
    "keyboard": _keyboard,
    "beeps": _beep,
}


@pytest.mark.parametrize("kind", NO_SPEECH)
def test_what_is_no_speech_is_not_found(kind: str) -> None:
    pcm = NO_SPEECH[kind](SECONDS * SAMPLE_RATE_HZ).astype(np.float32)
    assert _found_at(pcm) == []


def test_nothing_is_nothing() -> None:
    detector = SpeechDetector()
    assert not detector.heard(np.zeros(0, dtype=np.float32))
    assert not detector.heard(pause(1.0))


def test_detectors_do_not_share_what_they_heard() -> None:
    words, quiet = speak(SENTENCE), SpeechDetector()
    hiss = np.random.default_rng(5).standard_normal(len(words)).astype(np.float32) * np.float32(0.01)
    talking = SpeechDetector()
    for at in range(0, len(words), PIECE_SAMPLES):
        talking.heard(words[at : at + PIECE_SAMPLES])
        assert not quiet.heard(hiss[at : at + PIECE_SAMPLES])


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_detector_keeps_to_its_caller_s_thread_and_leaves_the_environment_alone() -> None:
    """Shared among threads, each window would hold the event loop up for as long as the busiest core likes."""
    script = (
        "import os, torch, numpy as np\n"  # torch's OpenMP is there first, as in a server
        "from personaplex_app.speech_detector import SpeechDetector\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "SpeechDetector().heard(np.full(24_000, 0.1, dtype=np.float32))\n"
        "print(len(os.listdir('/proc/self/task')) - before, os.environ['OMP_THREAD_LIMIT'])\n"
    )
    variables = {**os.environ, "OMP_THREAD_LIMIT": "7"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.stdout.split() == ["0", "7"], done.stderr
