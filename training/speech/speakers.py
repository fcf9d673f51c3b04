"""Who says a user's sentence: families of voices by weight, each utterance a little higher or lower, quicker or slower.

In: a bank of utterances. Out: draws of (utterance, stretch); a sound stretched.
Must not know: talks, models. A stretch moves pitch, formants and pace together, as an old tape does: one recorded
speaker becomes many, which hearing voices that training never had depends on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from random import Random

import torch.nn.functional as F
from torch import Tensor

from training.speech.shelf import Bank

WEIGHTS = {"kokoro": 5.0, "hibari": 2.5, "flite": 1.5, "espeak": 1.5}  # the natural ones are heard most
OTHER_WEIGHT = 1.0
STRETCHED_SHARE = 0.7
STRETCHES = (0.87, 1.16)


class Speakers:
    """Draws utterances of users."""

    def __init__(self, bank: Bank) -> None:
        self._by_text: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._by_family: dict[str, list[int]] = defaultdict(list)
        for index, one in enumerate(bank.utterances):
            if one.who == "user":
                self._by_text[one.text][one.family].append(index)
                self._by_family[one.family].append(index)

    def saying(self, text: str, rng: Random) -> int | None:
        """An utterance of this sentence; None where nobody says it."""
        return _drawn(self._by_text[text], rng) if text in self._by_text else None

    def any(self, rng: Random) -> int:
        """Any utterance."""
        return _drawn(self._by_family, rng)


def _drawn(families: dict[str, list[int]], rng: Random) -> int:
    names = list(families)
    family = rng.choices(names, [WEIGHTS.get(name, OTHER_WEIGHT) for name in names])[0]
    return rng.choice(families[family])


def draw_stretch(rng: Random) -> float:
    """Below 1: longer and lower."""
    if rng.random() >= STRETCHED_SHARE:
        return 1.0
    low, high = (math.log(one) for one in STRETCHES)
    return math.exp(rng.uniform(low, high))


def stretched_samples(samples: int, stretch: float) -> int:
    """How long a sound of so many samples is afterwards."""
    return round(samples / stretch)


def stretched(sound: Tensor, stretch: float) -> Tensor:
    """[N] to [N / stretch]."""
    if stretch == 1.0:
        return sound
    samples = stretched_samples(len(sound), stretch)
    return F.interpolate(sound[None, None], size=samples, mode="linear", align_corners=False)[0, 0]
