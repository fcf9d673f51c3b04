"""An agent's sentence word by word from several renderings, none of which tells what comes next.

In: the agents' renderings. Out: codes and where each word begins.
Must not know: talks, tokens.

A rendering said whole is known by its first frames: whoever has learned it by heart reads the name at its end off the
way it begins, and never off the prompt. So each word comes from any rendering that begins with the same words up to it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from random import Random

import numpy as np

from training.encode.shelves import Agents, Codes

END = ""  # stands behind a sentence's last word
Beginning = tuple[str, ...]


@dataclass(frozen=True)
class Spoken:
    """One sentence as it is said once.

    Attributes:
        codes: int16 [8, T]. words: frame at which each word begins.
    """

    text: str
    codes: Codes
    words: list[int]


class Renderings:
    """Draws how a sentence is said."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._words = [(*one.text.split(), END) for one in agents.renderings]
        self._by_beginning: dict[tuple[str, Beginning], list[int]] = defaultdict(list)
        for index, (one, words) in enumerate(zip(agents.renderings, self._words, strict=True)):
            for count in range(len(words) + 1):
                self._by_beginning[one.voice, words[:count]].append(index)

    def draw(self, voice: str, text: str, rng: Random) -> Spoken | None:
        """The sentence in this voice; None where it was never said."""
        said = (*text.split(), END)
        if (voice, said) not in self._by_beginning:
            return None
        source = rng.choice(self._by_beginning[voice, ()])
        pieces = [self._agents.of(source)[:, : self._start(source, 0)]]  # before its first word: any sentence's
        starts, at = [], pieces[0].shape[1]
        for place in range(len(said) - 1):
            known = said[: place + 1] if place + 2 < len(said) else said
            if self._words[source][: len(known)] != known:
                source = rng.choice(self._by_beginning[voice, known])
            first, end = self._start(source, place), self._start(source, place + 1)
            pieces.append(self._agents.of(source)[:, first:end])
            starts.append(at)
            at += end - first
        return Spoken(text, np.concatenate(pieces, 1), starts)

    def _start(self, index: int, place: int) -> int:
        """First frame of a word, or the end of the rendering."""
        one = self._agents.renderings[index]
        return one.words[place] if place < len(one.words) else one.frames
