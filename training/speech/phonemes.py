"""Text to phonemes, in the alphabet that hibari and Kokoro share, and to labels for the codec's first codebook.

In: sentences. Out: phoneme strings; small integers for CTC (0 is its blank).
Must not know: sound.
"""

from __future__ import annotations

import functools
from typing import Any

UNSPOKEN = " !,.?ˈˌ"  # separators and stress
ALPHABET = "AIOTWYbdfhijklmnpstuvwzæðŋɐɑɔəɛɜɡɪɹʃʊʌʒʤʧθᵊᵻ"
LABELS = {phoneme: index + 1 for index, phoneme in enumerate(ALPHABET)}
LABEL_COUNT = len(ALPHABET) + 1


@functools.cache
def hibari() -> Any:
    """The synthesizer whose pronunciation is used everywhere; on one thread."""
    from hibari import Hibari

    return Hibari(threads=1)


@functools.cache
def phonemes(text: str) -> str:
    """A sentence, kept in one piece."""
    return " ".join(hibari().phonemize(text))


def labels(text: str) -> list[int]:
    """CTC targets of a sentence; what stands in no alphabet is left out."""
    return [LABELS[one] for one in phonemes(text) if one in LABELS]
