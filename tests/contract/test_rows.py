"""Rows of the language model are islands: neighbours, pauses, copies and resets change nothing in a conversation."""

from __future__ import annotations

import random
from dataclasses import fields

import pytest
import torch
from support.golden import GREEDY, with_context
from support.rows import Neighbour, advance, plan, primed, user_frames
from torch import Tensor

from personaplex_app.controls import SamplingSettings
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import Weights
from personaplex_app.model.sampling import SamplingRows

CONTEXT = 300
FRAMES = 2000
SAMPLED = SamplingSettings(repetition_penalty=1.1)
SUBJECTS = {0: GREEDY, 2: SAMPLED}
NEIGHBOURS = (1, 3)
SLOTS = 4


@pytest.fixture(scope="module")
def weights(mini_weights: Weights) -> Weights:
    return with_context(mini_weights, CONTEXT)


@pytest.fixture(scope="module")
def config(mini_checkpoint: Checkpoint) -> CheckpointConfig:
    return mini_checkpoint.config


def _among_neighbours(weights: Weights, config: CheckpointConfig) -> tuple[dict[int, Tensor], list[Neighbour]]:
    """Both subjects talk for 2,000 frames, each pausing now and then, between two restless rows."""
    dice = random.Random(11)
    model = LanguageModel(weights, SLOTS)
    for slot, settings in SUBJECTS.items():
        model.prime(slot, plan(config, 7, 8, 9), settings, seed=40 + slot)
    neighbours = [Neighbour(model, config, slot, dice) for slot in NEIGHBOURS]
    heard = {slot: iter(user_frames(slot, FRAMES)) for slot in SUBJECTS}
    said: dict[int, list[Tensor]] = {slot: [] for slot in SUBJECTS}
    while min(len(frames) for frames in said.values()) < FRAMES:
        live = [False] * SLOTS
        codes = torch.randint(0, 2048, (SLOTS, 8))
        for neighbour in neighbours:
            live[neighbour.slot] = neighbour.move()
        for slot in SUBJECTS:
            live[slot] = len(said[slot]) < FRAMES and dice.random() > 0.02
            if live[slot]:
                codes[slot] = next(heard[slot])
        step = model.advance(codes, live)
        for slot in SUBJECTS:
            if live[slot]:
                said[slot].append(torch.cat([step.text[slot, None], step.next_text[slot, None], step.codes[slot]]))
    return {slot: torch.stack(frames) for slot, frames in said.items()}, neighbours


def test_neighbours_change_nothing(weights: Weights, config: CheckpointConfig) -> None:
    said, neighbours = _among_neighbours(weights, config)
    for neighbour in neighbours:
        assert min(neighbour.moves[name] for name in ("join", "leave", "slide", "pause")) >= 3
    for slot, settings in SUBJECTS.items():
        model = primed(weights, config, settings, seed=40 + slot, slots=SLOTS, slot=slot)
        alone = advance(model, slot, user_frames(slot, FRAMES))
        assert torch.equal(said[slot], alone)
        assert len(alone.unique(dim=0)) > FRAMES / 10, "a talk that repeats itself would prove nothing"


def test_a_wide_batch_gives_what_a_narrow_one_gives_greedily(weights: Weights, config: CheckpointConfig) -> None:
    frames = user_frames(3, 100)
    narrow = advance(primed(weights, config, GREEDY), 0, frames)
    wide = advance(primed(weights, config, GREEDY, slots=SLOTS, slot=3), 3, frames)
    assert torch.equal(narrow, wide)


@pytest.mark.parametrize("before", [30, 400], ids=["fresh ring", "wrapped ring"])
@pytest.mark.parametrize("target", [0, 1], ids=["same slot", "other slot"])
def test_a_restored_row_goes_on_as_the_original(
    weights: Weights, config: CheckpointConfig, before: int, target: int
) -> None:
    model = primed(weights, config, SAMPLED, seed=5, slots=2)
    advance(model, 0, user_frames(1, before))
    saved = model.save(0)
    original = advance(model, 0, user_frames(2, 60))
    model.prime(target, plan(config, 4), GREEDY, 1)
    advance(model, target, user_frames(9, 20))
    model.restore(target, saved)
    assert torch.equal(advance(model, target, user_frames(2, 60)), original)


def test_a_copy_is_not_touched_by_what_the_row_does_next(weights: Weights, config: CheckpointConfig) -> None:
    model = primed(weights, config, SAMPLED, seed=5)
    saved = model.save(0)
    kept = [saved.kv.clone(), saved.column.clone(), *(value.clone() for value in saved.sampling.values())]
    advance(model, 0, user_frames(1, 30))
    now = [saved.kv, saved.column, *saved.sampling.values()]
    assert all(torch.equal(one, other) for one, other in zip(kept, now, strict=True))
    assert saved.bytes == sum(tensor.nbytes for tensor in now)


def _state_tensors(model: LanguageModel) -> list[Tensor]:
    state = model.state
    rows = [getattr(state.sampling, field.name) for field in fields(SamplingRows)]
    return [state.kv, state.column, state.positions, torch.tensor(state.position_host), *rows]


@pytest.mark.parametrize("used", [30, 400], ids=["fresh ring", "wrapped ring"])
def test_a_reset_row_equals_a_fresh_one(weights: Weights, config: CheckpointConfig, used: int) -> None:
    model = primed(weights, config, SAMPLED, seed=5)
    advance(model, 0, user_frames(1, used))
    model.reset(0)
    assert _same_state(model, LanguageModel(weights, 1))
    assert model.state.settings == LanguageModel(weights, 1).state.settings
    model.prime(0, plan(config, 7, 8, 9), SAMPLED, 6)
    again = advance(model, 0, user_frames(2, 60))
    assert torch.equal(again, advance(primed(weights, config, SAMPLED, seed=6), 0, user_frames(2, 60)))


def _poison(model: LanguageModel) -> None:
    """A past that went wrong: its keys and values are no numbers."""
    used = min(model.state.position_host[0], CONTEXT)
    model.state.kv[:, 0, :, :, :used] = float("nan")


def _same_state(one: LanguageModel, other: LanguageModel) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_state_tensors(one), _state_tensors(other), strict=True))


def test_priming_leaves_nothing_of_a_longer_past(weights: Weights, config: CheckpointConfig) -> None:
    model = primed(weights, config, SAMPLED, seed=5)
    advance(model, 0, user_frames(1, 100))
    _poison(model)
    model.prime(0, plan(config, 7, 8, 9), SAMPLED, 6)
    fresh = primed(weights, config, SAMPLED, seed=6)
    assert _same_state(model, fresh)
    assert torch.equal(advance(model, 0, user_frames(2, 60)), advance(fresh, 0, user_frames(2, 60)))


def test_restoring_leaves_nothing_of_a_longer_past(weights: Weights, config: CheckpointConfig) -> None:
    model = primed(weights, config, SAMPLED, seed=5)
    saved = model.save(0)
    advance(model, 0, user_frames(1, 100))
    _poison(model)
    model.restore(0, saved)
    assert _same_state(model, primed(weights, config, SAMPLED, seed=5))


def test_runs_part_where_a_slider_moves(weights: Weights, config: CheckpointConfig) -> None:
    frames = user_frames(1, 100)
    still, moved = (primed(weights, config, SAMPLED, seed=5) for _ in range(2))
    assert torch.equal(advance(still, 0, frames[:50]), advance(moved, 0, frames[:50]))
    moved.set_sampling(0, SAMPLED.changed(audio_temperature=2.0, text_temperature=2.0, audio_top_k=0))
    rest, other = advance(still, 0, frames[50:]), advance(moved, 0, frames[50:])
    assert not torch.equal(rest[0], other[0])
    assert (rest != other).any(dim=1).float().mean() > 0.9


@pytest.mark.parametrize("change", [{"audio_top_k": 1}, {"text_top_k": 1}, {"audio_temperature": 0.1}], ids=str)
def test_each_slider_is_heard(weights: Weights, config: CheckpointConfig, change: dict[str, float]) -> None:
    frames = user_frames(1, 60)
    plain = advance(primed(weights, config, SAMPLED, seed=5), 0, frames)
    moved = advance(primed(weights, config, SAMPLED.changed(**change), seed=5), 0, frames)
    assert not torch.equal(plain, moved)


def test_the_seed_decides(weights: Weights, config: CheckpointConfig) -> None:
    frames = user_frames(1, 40)
    first, same, other = (advance(primed(weights, config, SAMPLED, seed=s), 0, frames) for s in (2**40, 2**40, 2**41))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_a_paused_row_resumes_unchanged(weights: Weights, config: CheckpointConfig) -> None:
    frames = user_frames(1, 80)
    steady = advance(primed(weights, config, SAMPLED, seed=5, slots=2), 0, frames)
    model = primed(weights, config, SAMPLED, seed=5, slots=2)
    model.prime(1, plan(config, 4), GREEDY, 1)
    first = advance(model, 0, frames[:40])
    advance(model, 1, user_frames(8, 50))
    assert torch.equal(torch.cat([first, advance(model, 0, frames[40:])]), steady)
