"""What the bench's callers say and are told: noise in the rhythm of speech, and prompts of a wanted length. Pure.

In: a seed, a length. Out: frames, texts. Must not know: models, time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from personaplex_app.audio import FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm
from personaplex_app.errors import InvalidInput

SYLLABLES_HZ = 4.0
PHRASE_SECONDS = 3.0
LOUDNESS = 0.1
MOST_WORDS = 4096
WORDS = ("you", "enjoy", "good", "talk", "about", "tea", "rain", "music", "old", "maps", "long", "walks", "and", "kind")


def speech_like(frames: int, seed: int = 0) -> Pcm:
    """float32 [frames, 1920]: noise with less treble, swelling four times a second, with a pause after each phrase."""
    samples = frames * FRAME_SAMPLES
    noise = np.random.default_rng(seed).standard_normal(samples + 1)
    dull = noise[1:] + noise[:-1]
    seconds = np.arange(samples) / SAMPLE_RATE_HZ
    syllables = 0.5 - 0.5 * np.cos(2 * np.pi * SYLLABLES_HZ * seconds)
    speaking = np.sin(2 * np.pi * seconds / PHRASE_SECONDS) > -0.5
    sound = LOUDNESS * dull * syllables * speaking
    return sound.astype(np.float32).reshape(frames, FRAME_SAMPLES)


def text_of(words: int, serial: int) -> str:
    """A persona's text of so many words; another serial gives another text from its first word on."""
    chosen = np.random.default_rng(serial).choice(WORDS, words)
    return " ".join(str(word) for word in chosen)


def words_for(positions: int, measure: Callable[[str], int | None]) -> int:
    """How many words of `text_of` come closest to so many positions without more, or as near as is allowed.

    Args:
        measure: the positions that a text takes; None where that is unknown. Raises InvalidInput for too long a text.
    """

    def fits(words: int) -> bool:
        try:
            taken = measure(text_of(words, 0))
        except InvalidInput:
            return False
        return (words if taken is None else taken) <= positions

    low, high = 0, 1
    while high < MOST_WORDS and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
