"""What the bench's callers say: the rhythm of speech; and prompts of a wanted length."""

from __future__ import annotations

import numpy as np
import pytest

from personaplex_app.errors import InvalidInput
from personaplex_app.evaluation.bench_sound import MOST_WORDS, speech_like, text_of, words_for


def test_noise_in_the_rhythm_of_speech() -> None:
    sound = speech_like(75)
    assert sound.shape == (75, 1920) and sound.dtype == np.float32
    assert np.abs(sound).max() < 1.0
    loud = np.sqrt((sound**2).mean(1))
    assert 0.2 < (loud == 0).mean() < 0.45, "a pause after each phrase"
    speaking = loud[:25][loud[:25] > 0]
    assert speaking.max() > 3 * speaking.min(), "it swells and sinks"
    assert np.array_equal(sound, speech_like(75)) and not np.array_equal(sound, speech_like(75, seed=1))


def test_two_serials_differ_and_one_is_always_the_same() -> None:
    assert text_of(30, 1) == text_of(30, 1) != text_of(30, 2)
    assert len(text_of(30, 1).split()) == 30 and text_of(0, 1) == ""


def _three_a_word(text: str) -> int:
    return 13 + 3 * len(text.split())


@pytest.mark.parametrize(("positions", "words"), [(40, 9), (200, 62), (13, 0), (5, 0)])
def test_a_text_comes_as_near_to_a_length_as_it_can(positions: int, words: int) -> None:
    assert words_for(positions, _three_a_word) == words


def test_a_text_is_never_longer_than_it_may_be() -> None:
    def measure(text: str) -> int:
        if len(text.split()) > 20:
            raise InvalidInput("Too long.")
        return _three_a_word(text)

    assert words_for(200, measure) == 20


def test_where_positions_are_unknown_words_stand_for_them() -> None:
    assert words_for(40, lambda text: None) == 40
    assert words_for(10 * MOST_WORDS, lambda text: None) <= MOST_WORDS
