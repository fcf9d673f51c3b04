"""Drives the rows of a LanguageModel: subjects with inputs of their own, neighbours that do what neighbours do."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch
from torch import Tensor

from personaplex_app.controls import SamplingSettings
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import Weights
from personaplex_app.model.prompts import PromptPlan, plan_prompt

AUDIO_CARD = 2048


def plan(config: CheckpointConfig, *text_tokens: int) -> PromptPlan:
    """A prompt without a voice."""
    return plan_prompt(None, list(text_tokens), config)


def user_frames(seed: int, count: int) -> Tensor:
    """What a random user said, int64 [count, 8]."""
    return torch.randint(0, AUDIO_CARD, (count, 8), generator=torch.Generator().manual_seed(seed))


def primed(
    weights: Weights, config: CheckpointConfig, settings: SamplingSettings, seed: int = 0, slots: int = 1, slot: int = 0
) -> LanguageModel:
    """A model with one conversation begun in one slot."""
    model = LanguageModel(weights, slots)
    model.prime(slot, plan(config, 7, 8, 9), settings, seed)
    return model


def advance(model: LanguageModel, slot: int, frames: Tensor) -> Tensor:
    """One row advances alone through int64 [T, 8]; returns int64 [T, 10]: text, next text, 8 codes."""
    slots = model.state.slots
    live = [index == slot for index in range(slots)]
    out = []
    for frame in frames:
        step = model.advance(frame.expand(slots, -1), live)
        out.append(torch.cat([step.text[slot, None], step.next_text[slot, None], step.codes[slot]]))
    return torch.stack(out)


def random_settings(dice: random.Random) -> SamplingSettings:
    """Any sliders, greedy and unlimited ones among them."""
    return SamplingSettings(
        audio_temperature=dice.choice((0.0, 0.5, 0.8, 2.0)),
        text_temperature=dice.choice((0.0, 0.7, 1.5)),
        audio_top_k=dice.choice((0, 1, 30, 250)),
        text_top_k=dice.choice((0, 5, 25)),
        repetition_penalty=dice.choice((1.0, 1.1, 1.6)),
    )


class Neighbour:
    """A row that joins with a random prompt, leaves, pauses and moves its sliders."""

    def __init__(self, model: LanguageModel, config: CheckpointConfig, slot: int, dice: random.Random) -> None:
        self.model, self.config, self.slot, self.dice = model, config, slot, dice
        self.joined = False
        self.moves: dict[str, int] = {}

    def move(self) -> bool:
        """Does something now and then; returns whether the row takes part in this step."""
        chance = self.dice.random()
        if not self.joined:
            return chance < 0.05 and self._do("join", self._join)
        if chance < 0.01:
            return self._do("leave", self._leave)
        if chance < 0.06:
            self._do("slide", lambda: self.model.set_sampling(self.slot, random_settings(self.dice)))
        paused = self.dice.random() < 0.2
        return not (paused and self._do("pause", lambda: None))

    def _do(self, name: str, act: Callable[[], None]) -> bool:
        act()
        self.moves[name] = self.moves.get(name, 0) + 1
        return name in ("join", "pause")

    def _join(self) -> None:
        text = [self.dice.randrange(4, 500) for _ in range(self.dice.randrange(0, 60))]
        self.model.prime(self.slot, plan(self.config, *text), random_settings(self.dice), self.dice.getrandbits(62))
        self.joined = True

    def _leave(self) -> None:
        self.model.reset(self.slot)
        self.joined = False
