"""Pieces to train the codec on: several whole utterances in a row, with their phonemes.

In: a bank of utterances on a device. Out: sound [B, N], labels for CTC, which rows are callers.
Must not know: models.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import torch
from torch import Tensor

from training.devices import without_waiting
from training.speech.phonemes import labels
from training.speech.shelf import Bank
from training.speech.speakers import Speakers, draw_stretch, stretched, stretched_samples

AGENT_SHARE = 0.4  # of the rows: what the persona says must be spoken best
GAPS = (1200, 24_000)  # samples between two utterances
MOST_LABELS = 200


@dataclass(frozen=True)
class Pieces:
    """One batch.

    Attributes:
        sound: float32 [B, N], clean. labels: int64 [B, L]. lengths: int64 [B], on the host. callers: bool [B].
    """

    sound: Tensor
    labels: Tensor
    lengths: Tensor
    callers: Tensor


class PieceMaker:
    """Draws pieces of so many samples from a bank that lies on the device whole."""

    def __init__(self, bank: Bank, samples: int, device: torch.device, seed: int) -> None:
        self._sound = torch.from_numpy(bank.sound).to(device)
        self._samples, self._device, self._rng = samples, device, Random(seed)
        self._utterances = bank.utterances
        self._labels = [labels(one.text) for one in bank.utterances]
        self._speakers = Speakers(bank)
        self._agents = [index for index, one in enumerate(bank.utterances) if one.who == "agent"]

    def draw(self, batch: int) -> Pieces:
        """A batch; the first rows are the agents'."""
        agents = round(batch * AGENT_SHARE)
        rows = [self._row("agent" if row < agents else "user") for row in range(batch)]
        sound = torch.zeros(batch, self._samples, device=self._device)
        targets = torch.zeros(batch, MOST_LABELS, dtype=torch.int64)
        lengths = torch.ones(batch, dtype=torch.int64)
        for row, placed in enumerate(rows):
            said: list[int] = []
            for index, at, stretch in placed:
                one = self._utterances[index]
                piece = stretched(self._sound[one.start : one.start + one.samples].float() / 32767, stretch)
                stop = min(at + len(piece), self._samples)
                sound[row, at:stop] = piece[: stop - at]
                said += self._labels[index]
            said = said[:MOST_LABELS]
            targets[row, : len(said)] = torch.tensor(said)
            lengths[row] = max(1, len(said))
        callers = torch.arange(batch, device=self._device) >= agents
        return Pieces(sound, without_waiting(targets, self._device), lengths, callers)

    def _row(self, who: str) -> list[tuple[int, int, float]]:
        """(utterance, first sample, stretch): as many as fit; the first always stands."""
        placed: list[tuple[int, int, float]] = []
        at = self._rng.randrange(GAPS[1])
        while True:
            index, stretch = self._said_by(who)
            length = stretched_samples(self._utterances[index].samples, stretch)
            if at + length > self._samples:
                if placed:
                    return placed
                at = max(0, self._samples - length)
            placed.append((index, at, stretch))
            at += length + self._rng.randint(*GAPS)

    def _said_by(self, who: str) -> tuple[int, float]:
        """The agents' voices stay as they are."""
        if who == "agent":
            return self._rng.choice(self._agents), 1.0
        return self._speakers.any(self._rng), draw_stretch(self._rng)


def sample_of(bank: Bank, who: str, count: int, seed: int) -> list[int]:
    """Some utterances' indices, the same ones at every start."""
    pool = [index for index, one in enumerate(bank.utterances) if one.who == who]
    chosen = np.random.default_rng(seed).permutation(len(pool))[:count]
    return [pool[index] for index in chosen]
