"""Who says a user's sentence in the training: families by weight, voices moved up and down."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
import torch

from training.speech.shelf import Bank, Utterance
from training.speech.speakers import STRETCHES, Speakers, draw_stretch, stretched, stretched_samples


def _bank() -> Bank:
    said = [("user", "hibari", "Hello.")] * 30 + [("user", "kokoro", "Hello.")] * 2 + [("agent", "agents", "Hello.")]
    said += [("user", "flite", "Bye.")]
    return Bank(np.zeros(0, np.int16), [Utterance(who, "v", text, family=family) for who, family, text in said])


def test_a_small_family_of_natural_voices_is_heard_most() -> None:
    bank, rng = _bank(), Random(0)
    speakers = Speakers(bank)
    drawn = [speakers.saying("Hello.", rng) for _ in range(600)]
    heard = Counter(bank.utterances[index].family for index in drawn if index is not None)
    assert heard["kokoro"] > 1.5 * heard["hibari"] > 0 and set(heard) == {"kokoro", "hibari"}
    assert {speakers.saying("Bye.", rng) for _ in range(9)} == {33} and speakers.saying(
        "Nobody says this.", rng
    ) is None
    assert {bank.utterances[speakers.any(rng)].family for _ in range(200)} == {"kokoro", "hibari", "flite"}


def test_stretches_stay_within_their_bounds_and_some_voices_stay_as_they_are() -> None:
    rng = Random(0)
    drawn = [draw_stretch(rng) for _ in range(500)]
    assert STRETCHES[0] <= min(drawn) < 0.9 and 1.1 < max(drawn) <= STRETCHES[1]
    assert 100 < drawn.count(1.0) < 200


@pytest.mark.parametrize("stretch", [0.87, 1.0, 1.16])
def test_a_stretched_tone_is_higher_and_shorter(stretch: float) -> None:
    tone = torch.sin(2 * torch.pi * 440 * torch.arange(24_000) / 24_000)
    made = stretched(tone, stretch)
    assert len(made) == stretched_samples(24_000, stretch) == pytest.approx(24_000 / stretch, abs=1)
    hertz = torch.fft.rfft(made).abs().argmax() * 24_000 / len(made)
    assert float(hertz) == pytest.approx(440 * stretch, rel=0.01)
