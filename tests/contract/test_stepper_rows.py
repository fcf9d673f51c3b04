"""Slots of the whole stepper, sound in and sound out: a saved slot goes on anywhere, a released one is as new."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.golden import GREEDY
from support.variants import with_config

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import FRAME_SAMPLES
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.model.stepper import SpeechStepper, Step
from personaplex_app.settings import EngineChoice
from personaplex_app.window import Window

SLOTS = 2
CHOICES = Choices("You enjoy having a good conversation.", "TINY0", SamplingSettings(), 3)


@pytest.fixture(scope="module")
def stepper(cache_outside_home: Path) -> SpeechStepper:
    return build_stepper(EngineChoice("mini", cache_outside_home, device="cpu", slots=SLOTS))


@pytest.fixture
def stranger(stepper: SpeechStepper) -> SpeechStepper:
    """The stepper with both slots used by others before."""
    other = stepper.open(Choices("A stranger.", "none", GREEDY, 9))
    for slot in range(SLOTS):
        stepper.prime(slot, other)
    for frame in _sound(99, 10):
        stepper.step({0: frame, 1: frame})
    return stepper


def _sound(seed: int, frames: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((frames, FRAME_SAMPLES)) * 0.1).astype(np.float32)


def _talk(stepper: SpeechStepper, slot: int, sound: np.ndarray, beside: np.ndarray | None = None) -> list[Step]:
    """Steps of one slot; `beside` is what the other slot hears meanwhile."""
    steps = []
    for index, frame in enumerate(sound):
        heard = {slot: frame} if beside is None else {slot: frame, 1 - slot: beside[index]}
        steps.append(stepper.step(heard)[slot])
    return steps


def _same(one: list[Step], other: list[Step]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(
        np.array_equal(a.pcm, b.pcm)
        and np.array_equal(a.tokens, b.tokens)
        and np.array_equal(a.heard_codes, b.heard_codes)
        for a, b in pairs
    )


def test_a_step_has_its_shapes(stepper: SpeechStepper) -> None:
    stepper.prime(1, stepper.open(CHOICES))
    steps = stepper.step({1: _sound(0, 1)[0]})
    assert list(steps) == [1]
    step = steps[1]
    assert step.pcm.shape == (FRAME_SAMPLES,) and step.pcm.dtype == np.float32
    assert step.tokens.shape == (9,) and step.heard_codes.shape == (8,)
    assert step.tokens.dtype == step.heard_codes.dtype == np.int64
    assert step.healthy and step.text_token == step.tokens[0]


def test_it_says_how_far_back_it_remembers_and_how_much_of_it_a_slot_uses(stepper: SpeechStepper) -> None:
    opening = stepper.open(CHOICES)
    stepper.prime(1, opening)
    assert stepper.window == Window(3000) and stepper.used(1) == opening.positions
    stepper.step({1: _sound(0, 1)[0]})
    assert stepper.used(1) == opening.positions + 1
    stepper.release(1)


def test_same_seed_same_talk_whoever_was_there_before(stranger: SpeechStepper) -> None:
    opening = stranger.open(CHOICES)
    stranger.prime(0, opening)
    first = _talk(stranger, 0, _sound(1, 40), beside=_sound(2, 40))
    stranger.prime(0, opening)
    assert _same(first, _talk(stranger, 0, _sound(1, 40)))


def test_another_seed_is_another_talk(stepper: SpeechStepper) -> None:
    talks = []
    for seed in (3, 4):
        stepper.prime(0, stepper.open(Choices(CHOICES.prompt, CHOICES.voice, CHOICES.sampling, seed)))
        talks.append(_talk(stepper, 0, _sound(1, 20)))
    assert not _same(*talks)
    assert all(np.array_equal(a.heard_codes, b.heard_codes) for a, b in zip(*talks, strict=True))


@pytest.mark.parametrize("target", [0, 1], ids=["same slot", "other slot"])
def test_a_restored_slot_goes_on_as_the_original(stranger: SpeechStepper, target: int) -> None:
    stranger.prime(0, stranger.open(CHOICES))
    _talk(stranger, 0, _sound(1, 25))
    saved = stranger.save(0)
    original = _talk(stranger, 0, _sound(2, 25))
    stranger.prime(target, stranger.open(Choices("", "none", GREEDY, 1)))
    _talk(stranger, target, _sound(5, 10))
    stranger.restore(target, saved)
    assert _same(_talk(stranger, target, _sound(2, 25)), original)


@pytest.mark.parametrize("sampling", [GREEDY, SamplingSettings()], ids=["greedy", "seeded"])
def test_a_slot_that_was_put_away_goes_on_as_if_nothing_had_been(
    stranger: SpeechStepper, sampling: SamplingSettings
) -> None:
    """Out of its slot, into the host's memory, and back after a stranger has used the slot."""
    choices = Choices(CHOICES.prompt, CHOICES.voice, sampling, 7)
    sound = _sound(1, 60)
    stranger.prime(0, stranger.open(choices))
    through = _talk(stranger, 0, sound)
    assert len({step.text_token for step in through}) > 3
    stranger.prime(0, stranger.open(choices))
    broken = _talk(stranger, 0, sound[:25])
    saved = stranger.save(0).to_host()
    stranger.release(0)
    stranger.prime(0, stranger.open(Choices("Another stranger.", "none", GREEDY, 2)))
    _talk(stranger, 0, _sound(5, 10), beside=_sound(6, 10))
    stranger.restore(0, saved.to_device())
    assert _same(broken + _talk(stranger, 0, sound[25:], beside=_sound(7, 35)), through)


def test_a_slot_put_away_in_the_middle_of_a_rebuild_goes_on(
    mini_directory: Path, tmp_path: Path, cache_outside_home: Path
) -> None:
    """The past that a model with a short trained one rebuilds beside the talk is part of the slot."""
    directory = with_config(mini_directory, tmp_path / "short", lambda config: config.update(trained_positions=200))
    stepper = build_stepper(EngineChoice(str(directory), cache_outside_home, device="cpu", precision="float32"))
    stepper.prime(0, stepper.open(CHOICES))
    _talk(stepper, 0, _sound(1, 60))
    positions = [stepper.language.state.position_host[0]]
    saved = stepper.save(0).to_host()
    assert saved.language.rebuild is not None and saved.language.rebuild.shadow is not None
    first = _talk(stepper, 0, _sound(2, 90))
    positions.append(stepper.language.state.position_host[0])
    assert positions[1] < positions[0] + 90, "the rebuilt past was swapped in"
    stepper.release(0)
    stepper.restore(0, saved.to_device())
    assert _same(_talk(stepper, 0, _sound(2, 90)), first)


def test_a_saved_slot_says_how_large_it_is_and_grows_with_the_talk(stepper: SpeechStepper) -> None:
    stepper.prime(0, stepper.open(CHOICES))
    sizes = []
    for _ in range(3):
        saved = stepper.save(0)
        kv, codec = saved.language.kv, sum(tensor.nbytes for tensor in saved.codec)
        assert kv.nbytes + codec < saved.bytes < kv.nbytes + codec + 10_000
        sizes.append(saved.bytes)
        _talk(stepper, 0, _sound(1, 4))
    per_position = saved.language.kv[:, :, :, 0].nbytes
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] == 4 * per_position


def test_steps_leave_a_saved_slot_as_it_is(stepper: SpeechStepper) -> None:
    stepper.prime(0, stepper.open(CHOICES))
    _talk(stepper, 0, _sound(1, 5))
    saved = stepper.save(0)
    before = [tensor.clone() for tensor in (*saved.language.tensors, *saved.codec)]
    _talk(stepper, 0, _sound(2, 5))
    stepper.restore(1, saved)
    _talk(stepper, 1, _sound(3, 5))
    stepper.release(0)
    after = [*saved.language.tensors, *saved.codec]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_released_slot_is_as_new(stepper: SpeechStepper, cache_outside_home: Path) -> None:
    fresh = build_stepper(EngineChoice("mini", cache_outside_home, device="cpu", slots=SLOTS)).save(0)
    stepper.prime(0, stepper.open(CHOICES))
    _talk(stepper, 0, _sound(1, 25))
    stepper.release(0)
    released = stepper.save(0)
    assert released.language.position == fresh.language.position == 0
    assert released.language.settings == fresh.language.settings
    assert all((a == b).all() for a, b in zip(released.codec, fresh.codec, strict=True))
    assert all(
        (released.language.sampling[key] == fresh.language.sampling[key]).all() for key in fresh.language.sampling
    )
    assert not stepper.language.state.kv[:, 0].any()


def test_a_slider_moves_in_mid_talk(stepper: SpeechStepper) -> None:
    talks = []
    for moved in (False, True):
        stepper.prime(0, stepper.open(CHOICES))
        first = _talk(stepper, 0, _sound(1, 15))
        if moved:
            stepper.set_sampling(0, SamplingSettings(audio_temperature=2.0, text_temperature=2.0, audio_top_k=0))
        talks.append((first, _talk(stepper, 0, _sound(2, 15))))
    assert _same(talks[0][0], talks[1][0])
    assert not np.array_equal(talks[0][1][0].tokens, talks[1][1][0].tokens)


def test_numbers_that_are_none_are_told_and_stay_in_their_slot(stepper: SpeechStepper) -> None:
    for slot in range(SLOTS):
        stepper.prime(slot, stepper.open(CHOICES))
    stepper.language.state.kv[:, 0] = float("nan")
    steps = stepper.step({0: _sound(1, 1)[0], 1: _sound(1, 1)[0]})
    assert [steps[slot].healthy for slot in range(SLOTS)] == [False, True]
    stepper.prime(0, stepper.open(CHOICES))
    assert all(step.healthy for step in _talk(stepper, 0, _sound(1, 5)))


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        (Choices("", "NOBODY", GREEDY, 0), "no voice NOBODY; this checkpoint has TINY0"),
        (Choices("", "../TINY0", GREEDY, 0), "no voice name"),
        (Choices("word " * 1500, "TINY0", GREEDY, 0), "text takes [0-9]+ tokens .* at most 1000 fit"),
    ],
)
def test_what_cannot_be_opened_is_refused_in_words(stepper: SpeechStepper, choices: Choices, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        stepper.open(choices)
