"""Sentences word by word: what is heard of one up to a word tells nothing of the words behind it."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np

from training.encode.shelves import Agents, Rendering
from training.language.renderings import Renderings

NAMES = ("Leo", "Kate", "Tom", "Olivia")
TEXTS = [f"My name is {name}." for name in NAMES] + ["My favorite color is blue.", "Okay, go ahead.", "My name is Leo."]
WORD_FRAMES, LEAD_FRAMES, TAIL_FRAMES = 4, 2, 3


def _agents(voice: str = "NATF0") -> Agents:
    """Each rendering has a code of its own; each word takes one frame more than in the rendering before."""
    renderings, pieces, at = [], [], 0
    for index, text in enumerate(TEXTS):
        words = [LEAD_FRAMES + (WORD_FRAMES + index) * place for place in range(len(text.split()))]
        frames = words[-1] + WORD_FRAMES + index + TAIL_FRAMES
        renderings.append(Rendering(voice, text, at, frames, words, index))
        pieces.append(np.full((8, frames), index, np.int16))
        at += frames
    return Agents(np.concatenate(pieces, 1), renderings)


def _source_of(word: int, spoken_codes: np.ndarray, words: list[int]) -> int:
    return int(spoken_codes[0, words[word]])


def test_every_word_comes_from_a_rendering_that_begins_with_the_same_words() -> None:
    renderings, rng = Renderings(_agents()), Random(1)
    for text in TEXTS * 30:
        spoken = renderings.draw("NATF0", text, rng)
        assert spoken is not None and spoken.text == text
        said = text.split()
        assert len(spoken.words) == len(said) and spoken.codes.shape[0] == 8
        for place, word in enumerate(said):
            source = _source_of(place, spoken.codes, spoken.words)
            assert TEXTS[source].split()[: place + 1] == said[: place + 1], (text, word)
            end = spoken.words[place + 1] if place + 1 < len(said) else spoken.codes.shape[1]
            assert set(spoken.codes[0, spoken.words[place] : end]) == {source}, "a word is of one piece"
            tail = TAIL_FRAMES if place + 1 == len(said) else 0
            assert end - spoken.words[place] == WORD_FRAMES + source + tail
        assert TEXTS[_source_of(len(said) - 1, spoken.codes, spoken.words)] == text


def test_what_stands_before_a_name_does_not_tell_the_name() -> None:
    renderings, rng = Renderings(_agents()), Random(2)
    before = {name: Counter[int]() for name in ("Kate", "Tom")}
    for name, seen in before.items():
        for _ in range(3000):
            spoken = renderings.draw("NATF0", f"My name is {name}.", rng)
            assert spoken is not None
            seen[_source_of(2, spoken.codes, spoken.words)] += 1
    assert set(before["Kate"]) == {0, 1, 2, 3, 6}
    assert all(abs(before["Kate"][one] - before["Tom"][one]) < 200 for one in before["Kate"])
    leads = Counter(
        int(spoken.codes[0, 0]) for _ in range(2000) if (spoken := renderings.draw("NATF0", "Okay, go ahead.", rng))
    )
    assert set(leads) == set(range(len(TEXTS))), "nor do the frames before the first word tell the first word"


def test_what_nobody_said_in_this_voice_is_not_said() -> None:
    renderings = Renderings(_agents())
    assert renderings.draw("NATM0", TEXTS[0], Random(1)) is None
    assert renderings.draw("NATF0", "My name is", Random(1)) is None, "a beginning is no sentence"
