"""Layers that stream from host memory: the same tokens as with all of them resident, and never the model twice.

On a CPU the staging buffers are filled at once and the rest is the same code: a layer fetched too soon, too late or
out of turn would change tokens here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.golden import CASES, Case, Reference, case_talk
from support.host_peak import HostPeak
from support.offload import KEPT, LAYERS, budget, seven_layers, written
from support.rows import advance, primed, user_frames

from personaplex_app.audio import FRAME_SAMPLES
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.model import offload
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.codec import load_codec
from personaplex_app.model.config import CheckpointConfig, LanguageConfig
from personaplex_app.model.frame_time import measured_frame_ms
from personaplex_app.model.loading import Weights, load_weights, random_weights
from personaplex_app.model.offload import load_offloaded, random_offloaded, streamed_layers
from personaplex_app.model.stepper import SpeechStepper, Step
from personaplex_app.model.streamed_layers import StreamedLayers
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.model.voice_file import VoiceShelf
from personaplex_app.offline import Rendered, render

CPU = torch.device("cpu")
SAMPLED = SamplingSettings(repetition_penalty=1.1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, mini_checkpoint: Checkpoint) -> Checkpoint:
    return seven_layers(tmp_path_factory.mktemp("seven"), mini_checkpoint.config)


@pytest.fixture(scope="module")
def resident(checkpoint: Checkpoint) -> Weights:
    return load_weights(checkpoint, CPU, torch.float32)


@pytest.fixture(params=[0, 1, KEPT, 4], ids=lambda kept: f"{kept} kept")
def streaming(request: pytest.FixtureRequest, checkpoint: Checkpoint) -> Weights:
    return _load(checkpoint, request.param)


def _load(checkpoint: Checkpoint, kept: int, dtype: torch.dtype = torch.float32) -> Weights:
    return load_offloaded(checkpoint, CPU, dtype, budget(checkpoint.config.language, dtype, kept))


def _streamed(weights: Weights) -> StreamedLayers:
    assert isinstance(weights.temporal.layers, StreamedLayers)
    return weights.temporal.layers


# --- the same tokens


@pytest.mark.parametrize("case", [case for case in CASES if case.name in ("pt_text", "short_context")], ids=str)
def test_golden_tokens_with_every_layer_streamed(case: Case, mini_checkpoint: Checkpoint, reference: Reference) -> None:
    weights = _load(mini_checkpoint, 0)
    assert streamed_layers(weights) == mini_checkpoint.config.language.layers
    ours, theirs = case_talk(case, weights, mini_checkpoint, reference)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kept", [0, 1, KEPT, 4])
def test_tokens_are_those_of_the_resident_engine(checkpoint: Checkpoint, kept: int, dtype: torch.dtype) -> None:
    weights, frames = _load(checkpoint, kept, dtype), user_frames(3, 60)
    assert streamed_layers(weights) == LAYERS - kept
    expected = advance(primed(load_weights(checkpoint, CPU, dtype), checkpoint.config, SAMPLED, 5), 0, frames)
    assert torch.equal(advance(primed(weights, checkpoint.config, SAMPLED, 5), 0, frames), expected)
    assert len(expected.unique(dim=0)) > 30, "a talk that repeats itself would prove nothing"


def test_random_weights_are_those_of_the_resident_stand_in(checkpoint: Checkpoint) -> None:
    config = checkpoint.config.language
    weights = random_offloaded(config, CPU, torch.bfloat16, budget(config, torch.bfloat16, KEPT), seed=3)
    expected = random_weights(config, CPU, torch.bfloat16, seed=3)
    assert streamed_layers(weights) == LAYERS - KEPT
    for part in ("temporal", "depth"):
        theirs = dict(getattr(expected, part).named_parameters())
        ours = dict(getattr(weights, part).named_parameters())
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


# --- the way of a layer


def test_layers_that_stream_compute_from_the_staging_buffers_alone(streaming: Weights, resident: Weights) -> None:
    layers = _streamed(streaming)
    rooms = {staging.room.memory.data_ptr() for staging in layers._staging}
    own = {index: layer.norm1.alpha.data_ptr() for index, layer in enumerate(layers._modules.values())}
    for _ in range(3):  # an odd number of streamed layers takes the buffers in turn
        for index, (layer, expected) in enumerate(zip(layers, resident.temporal.layers, strict=True)):
            assert (layer.norm1.alpha.data_ptr() in rooms) == (index in layers.streamed)
            assert (layer.norm1.alpha.data_ptr() == own[index]) == (index not in layers.streamed)
            theirs = dict(expected.named_parameters())
            assert all(torch.equal(parameter, theirs[name]) for name, parameter in layer.named_parameters())


def test_a_pass_copies_each_layer_once_and_the_next_one_s_first_ahead(
    streaming: Weights, checkpoint: Checkpoint
) -> None:
    layers = _streamed(streaming)
    count, ahead = len(layers.streamed), 2
    model = primed(streaming, checkpoint.config, SAMPLED)
    assert layers.fills == ahead + count, "a prompt is read in one pass"
    advance(model, 0, user_frames(1, 4))
    assert layers.fills == ahead + 5 * count


def test_a_pass_that_broke_off_leaves_the_next_one_whole(checkpoint: Checkpoint, resident: Weights) -> None:
    weights, frames = _load(checkpoint, 1), user_frames(2, 5)
    expected = advance(primed(resident, checkpoint.config, SAMPLED), 0, frames)
    for taken in range(1, LAYERS + 1):
        abandoned = islice(weights.temporal.layers, taken)
        assert len(list(abandoned)) == taken
        del abandoned
        assert torch.equal(advance(primed(weights, checkpoint.config, SAMPLED), 0, frames), expected)


def test_steps_take_no_new_memory_for_weights(streaming: Weights, checkpoint: Checkpoint) -> None:
    layers = _streamed(streaming)
    model = primed(streaming, checkpoint.config, SAMPLED)
    places = [staging.room.memory.data_ptr() for staging in layers._staging]
    advance(model, 0, user_frames(1, 3))
    assert [staging.room.memory.data_ptr() for staging in layers._staging] == places
    assert len(layers._coming) == len(places)


# --- the whole stepper


@pytest.fixture(scope="module")
def steppers(
    checkpoint: Checkpoint, mini_checkpoint: Checkpoint, resident: Weights, cache_outside_home: Path
) -> list[SpeechStepper]:
    """One whose layers stream, one that holds them."""
    config = checkpoint.config
    return [
        SpeechStepper(
            weights,
            load_codec(mini_checkpoint.codec, config, CPU, 2),
            Tokenizer(mini_checkpoint.tokenizer, config.language.text_card),
            config,
            VoiceShelf(mini_checkpoint.directory, cache_outside_home / "voices", config),
        )
        for weights in (_load(checkpoint, KEPT), resident)
    ]


def _sound(frames: int) -> np.ndarray:
    return (np.random.default_rng(4).standard_normal(frames * FRAME_SAMPLES) * 0.1).astype(np.float32)


def _tokens(steps: list[dict[int, Step]], slot: int) -> list[list[int]]:
    assert all(step[slot].healthy for step in steps)
    return [step[slot].tokens.tolist() for step in steps]


def _put_away_and_back(stepper: SpeechStepper) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """A talk put away for another and gone on with in the other slot, beside it; then its old slot begun anew."""
    heard = _sound(8).reshape(8, -1)
    choices = [Choices(text, "none", SAMPLED, seed) for seed, text in enumerate(("Hello.", "A stranger."))]
    stepper.prime(0, stepper.open(choices[0]))
    for frame in heard[:4]:
        stepper.step({0: frame})
    saved = stepper.save(0).to_host()
    stepper.release(0)
    stepper.prime(0, stepper.open(choices[1]))
    stepper.step({0: heard[0]})
    stepper.restore(1, saved.to_device())
    both = [stepper.step({0: frame, 1: frame}) for frame in heard[4:]]
    stepper.release(0)
    stepper.prime(0, stepper.open(choices[0]))
    again = [stepper.step({0: frame}) for frame in heard]
    for slot in range(2):
        stepper.release(slot)
    return _tokens(both, 0), _tokens(both, 1), _tokens(again, 0)


def test_slots_are_primed_put_away_and_wiped_as_before(steppers: list[SpeechStepper]) -> None:
    ours, theirs = (_put_away_and_back(stepper) for stepper in steppers)
    assert ours == theirs
    stranger, gone_on, again = ours
    assert gone_on == again[4:] and stranger != gone_on


def test_an_offline_render_gives_the_same_sound_and_tokens(steppers: list[SpeechStepper]) -> None:
    seen: list[Rendered] = []
    for stepper in steppers:
        frames: list[int] = []
        opening = stepper.open(Choices("Hello.", "TINY0", SAMPLED, 7))
        seen.append(render(stepper, opening, _sound(6)[:-100], lambda them, told=frames: _counted(them, told)))
        stepper.release(0)
        assert frames == list(range(6)), "progress is told frame by frame"
    assert np.array_equal(seen[0].pcm, seen[1].pcm) and np.array_equal(seen[0].tokens, seen[1].tokens)


def _counted(frames: list[np.ndarray], told: list[int]) -> Iterator[np.ndarray]:
    for index, frame in enumerate(frames):
        yield frame
        told.append(index)


def test_the_time_of_a_frame_is_measured_with_full_windows_and_leaves_no_trace(
    steppers: list[SpeechStepper], monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = steppers[0]
    layers, step, positions = _streamed(stepper.language.weights), stepper.step, []

    def slow_step(heard: Mapping[int, np.ndarray]) -> dict[int, Step]:
        positions.append(list(stepper.language.state.position_host))
        time.sleep(0.02)
        return step(heard)

    monkeypatch.setattr(stepper, "step", slow_step)
    fills = layers.fills
    measured = measured_frame_ms(stepper, frames=3)
    assert layers.fills - fills == 5 * len(layers.streamed)
    assert positions == [[stepper.context + frame] * 2 for frame in range(5)]
    assert 20 < measured < 500
    assert not stepper.language.state.kv.any() and stepper.language.state.position_host == [0, 0]


# --- memory


@pytest.mark.parametrize("kept", [0, 1, KEPT, LAYERS])
def test_the_sizes_promised_are_those_taken(checkpoint: Checkpoint, kept: int) -> None:
    config = checkpoint.config.language
    weights = _load(checkpoint, kept)
    layers = weights.temporal.layers
    streamed = set(layers.streamed) if isinstance(layers, StreamedLayers) else set()
    away = {id(p) for index in streamed for p in layers._modules[str(index)].parameters()}
    here = [p for part in (weights.temporal, weights.depth) for p in part.parameters() if id(p) not in away]
    rooms = [staging.room.memory for staging in layers._staging] if isinstance(layers, StreamedLayers) else []
    taken = sum(-(-tensor.nbytes // 512) * 512 for tensor in [*here, *rooms])
    assert taken == budget(config, torch.float32, kept)


def test_a_load_never_holds_the_model_twice(
    tmp_path: Path, checkpoint: Checkpoint, mini_checkpoint: Checkpoint
) -> None:
    _load(checkpoint, KEPT)  # what torch imports for its first load is no part of the model
    wide = replace(mini_checkpoint.config.language, dim=512, heads=8, hidden=1408, layers=12)
    written_wide = written(tmp_path, mini_checkpoint.config, wide, torch.bfloat16)
    whole = written_wide.weights.stat().st_size
    largest = 2 * 2 * 1408 * 512
    with HostPeak() as peak:
        weights = _load(written_wide, KEPT, torch.bfloat16)
    assert streamed_layers(weights) == 12 - KEPT and whole > 90 << 20
    assert whole < peak.bytes < 1.15 * whole + largest


@pytest.mark.parametrize("make", ["load", "random"])
def test_refusals_come_before_anything_is_allocated(
    make: str, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = checkpoint.config.language
    monkeypatch.setattr(offload, "_empty_weights", lambda *_: pytest.fail("allocated"))

    def attempt(budget_bytes: int) -> None:
        if make == "load":
            load_offloaded(checkpoint, CPU, torch.float32, budget_bytes)
        else:
            random_offloaded(config, CPU, torch.float32, budget_bytes)

    with pytest.raises(InvalidInput, match=r"room for 2 layers take 0\.\d\d GiB of GPU memory"):
        attempt(budget(config, torch.float32, 0) - 1)
    monkeypatch.setattr(offload, "available_bytes", lambda: 1 << 29)
    with pytest.raises(InvalidInput, match=r"The 6 of 7 layers .* need 1\.00 GiB .* 0\.50 GiB are available"):
        attempt(budget(config, torch.float32, 1))


@pytest.mark.parametrize("layer", [0, 6], ids=["a layer that stays", "a layer that streams"])
def test_a_number_that_is_not_finite_is_refused_by_name(
    layer: int, tmp_path: Path, checkpoint: Checkpoint, mini_checkpoint: Checkpoint
) -> None:
    name = f"transformer.layers.{layer}.gating.linear_out.weight"
    tensors = load_file(checkpoint.weights)
    tensors[name][3, 5] = float("nan")
    save_file(tensors, tmp_path / checkpoint.weights.name)
    with pytest.raises(InvalidInput, match=f"the tensor {name} holds a number that is not finite"):
        _load(replace(checkpoint, directory=tmp_path), KEPT)


def test_where_all_fits_nothing_streams(checkpoint: Checkpoint, resident: Weights) -> None:
    weights = _load(checkpoint, LAYERS)
    assert streamed_layers(weights) == streamed_layers(resident) == 0
    assert type(weights.temporal.layers) is type(resident.temporal.layers)


def test_the_sizes_of_the_released_model() -> None:
    assert 14.2 < budget(LanguageConfig(), torch.bfloat16, 32) / 2**30 < 14.4
    assert CheckpointConfig().language.layers == 32
