"""A made checkpoint is what the released one is: layout, names, types; moshi's own loaders take it strictly."""

from __future__ import annotations

import argparse
import io
import json
import math
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from moshi.models import loaders
from safetensors import safe_open
from sentencepiece import SentencePieceProcessor
from support.voice_files import good_fields

from personaplex_app.audio import split_frames
from personaplex_app.model.checkpoint import CODEC_FILE, CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE, open_checkpoint
from personaplex_app.model.codec import load_codec
from personaplex_app.model.config import CheckpointConfig, LanguageConfig, read_config
from personaplex_app.model.loading import Weights, load_weights
from personaplex_app.model.prompts import VoicePrompt, plan_prompt
from personaplex_app.model.safetensors_writer import TensorSlot, file_size_bytes
from personaplex_app.model.stand_in import FILES, full_stand_in, make_checkpoint, mini_stand_in
from personaplex_app.model.stand_in_numbers import (
    BLOCK_NUMBERS,
    bfloat16_bits,
    codec_slots,
    language_slots,
    language_spread,
    number_blocks,
)
from personaplex_app.model.stand_in_voices import OFFICIAL_VOICES, voice_codes, voice_fields, voice_frames
from personaplex_app.model.voice_file import VoiceShelf
from personaplex_app.settings import CACHE_VARIABLE, add_model_flags, add_serve_flags, read_settings
from personaplex_app.sound_files import read_sound
from personaplex_app.web.catalogue import RANDOM_NOTICE
from personaplex_app.web.server import make_stepper

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache_outside_home: Path) -> Path:
    directory = tmp_path_factory.mktemp("made") / "checkpoint"
    make_checkpoint(directory, mini_stand_in(), 5, cache_outside_home, lambda line: None)
    return directory


@pytest.fixture(scope="module")
def weights(made: Path) -> Weights:
    """As a checkpoint's directory is loaded: bf16."""
    return load_weights(open_checkpoint(made), CPU, torch.bfloat16)


def _header(path: Path) -> dict[str, tuple[str, list[int]]]:
    with safe_open(path, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (part.get_dtype(), part.get_shape()) for name, part in slices.items()}


def test_it_holds_the_five_files_and_opens(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == sorted(FILES)
    checkpoint = open_checkpoint(made)
    assert checkpoint.stacked_steps == 16 and checkpoint.config == mini_stand_in().config
    assert (checkpoint.config.language.text_card, checkpoint.config.language.dim) == (32_000, 32)


def test_names_shapes_and_types_are_the_released_layout_s(made: Path, mini_directory: Path) -> None:
    """The reference's miniature has that layout; only the vocabulary is smaller there."""
    ours, theirs = _header(made / WEIGHTS_FILE), _header(mini_directory / WEIGHTS_FILE)
    assert {dtype for dtype, _ in ours.values()} == {"BF16"}
    shapes = {
        name: [{513: 32_001, 512: 32_000}.get(size, size) for size in shape] for name, (_, shape) in theirs.items()
    }
    assert {name: shape for name, (_, shape) in ours.items()} == shapes
    assert _header(made / CODEC_FILE) == _header(mini_directory / CODEC_FILE)


def test_moshi_s_own_loaders_take_it_strictly(made: Path) -> None:
    config = json.loads((made / CONFIG_FILE).read_text())
    assert config["lm_config"]["dep_q"] == 16
    loaders.get_mimi(made / CODEC_FILE, config["mimi_config"])
    model = loaders.get_moshi_lm(made / WEIGHTS_FILE, dict(config["lm_config"]), dtype=torch.bfloat16)
    assert model.dep_q == 16 and {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_the_full_size_is_moshi_s_with_sixteen_steps() -> None:
    slots = language_slots(LanguageConfig())
    assert 8.3e9 < sum(slot.count for slot in slots) < 8.4e9 and 16.7e9 < file_size_bytes(slots) < 16.8e9
    with torch.device("meta"):
        model = loaders.get_moshi_lm(None, dict(loaders._lm_kwargs, dep_q=16), device="meta")
        tensors = {slot.name: torch.empty(slot.shape, dtype=torch.bfloat16) for slot in slots}
    model.load_state_dict(tensors, assign=True)


def test_the_full_size_s_codec_is_moshi_s() -> None:
    slots = codec_slots(CheckpointConfig())
    assert 384e6 < file_size_bytes(slots) < 386e6 and {slot.dtype for slot in slots} == {"F32"}
    with torch.device("meta"):
        mimi = loaders.get_mimi(None, device="meta")
        mimi.load_state_dict({slot.name: torch.empty(slot.shape) for slot in slots}, assign=True)


def test_the_full_size_s_configuration_is_tiny_and_means_the_released_sizes(tmp_path: Path) -> None:
    text = json.dumps(full_stand_in().text)
    (tmp_path / CONFIG_FILE).write_text(text)
    assert (
        len(text) < 200
        and read_config(tmp_path / CONFIG_FILE) == CheckpointConfig(random=True) == full_stand_in().config
    )
    assert 17.1e9 < full_stand_in().size_bytes < 17.3e9


def test_the_tokenizer_has_the_released_size(made: Path) -> None:
    assert SentencePieceProcessor(model_file=str(made / TOKENIZER_FILE)).vocab_size() == 32_000


def test_the_spreads_keep_activations_near_unit_size(made: Path, weights: Weights) -> None:
    for slot in language_slots(LanguageConfig()):
        mean, deviation = language_spread(slot)
        assert (mean, deviation) == (1.0, 0.0) or math.isclose(deviation, slot.shape[-1] ** -0.5) or deviation == 0.25
    temporal = weights.temporal
    assert 0.24 < temporal.text_emb.weight.float().std() < 0.26
    assert 0.95 < temporal.layers[0].gate_in.weight.float().std() * 32**0.5 < 1.05
    assert torch.equal(temporal.out_norm.alpha, torch.ones_like(temporal.out_norm.alpha))


def test_codes_follow_the_sound_and_what_is_decoded_is_not_loud(made: Path, fixtures: Path) -> None:
    checkpoint = open_checkpoint(made)
    codec = load_codec(checkpoint.codec, checkpoint.config, CPU, 1)
    frames = torch.from_numpy(split_frames(read_sound(fixtures / "custom_voice.wav")[57_600:96_000]))
    codes = [codec.encode(frame[None]) for frame in frames]
    sound = torch.cat([codec.decode(code) for code in codes])
    assert all(len(set(column.tolist())) > len(frames) // 2 for column in torch.cat(codes).T)
    assert sound.isfinite().all() and 0.01 < sound.std() < 0.3


def _numbers(slot: TensorSlot, seed: int, threads: int = 1, spread: tuple[float, float] = (0.0, 1.0)) -> list[bytes]:
    with ThreadPoolExecutor(threads) as pool:
        return [block.tobytes() for block in number_blocks(slot, spread, seed, pool)]


def test_blocks_are_small_and_one_after_another_the_tensor() -> None:
    slot = max(language_slots(LanguageConfig(layers=1)), key=lambda slot: slot.count)
    sizes = [len(block) for block in _numbers(slot, 0, 2, (1.0, 0.0))]
    assert max(sizes) == 2 * BLOCK_NUMBERS < 10_000_000 < sum(sizes) == slot.size_bytes


def test_numbers_depend_on_the_tensor_s_name_and_the_seed_and_on_no_thread() -> None:
    first, second = (TensorSlot(name, "BF16", (3, BLOCK_NUMBERS)) for name in ("first", "second"))
    blocks = _numbers(first, 1)
    assert blocks == _numbers(first, 1, 4) and len(set(blocks)) == 3
    assert len({*blocks, *_numbers(first, 2), *_numbers(second, 1)}) == 9


def test_rounding_is_torch_s() -> None:
    numbers = np.random.default_rng(1).standard_normal(100_000, dtype=np.float32)
    halves = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 0.0, -0.0], dtype=np.float32)
    for given in (numbers, halves):
        theirs = torch.from_numpy(given.copy()).bfloat16().view(torch.int16).numpy().view(np.uint16)
        np.testing.assert_array_equal(bfloat16_bits(given), theirs)


def test_all_eighteen_official_voices_are_there_in_the_released_format(made: Path) -> None:
    with tarfile.open(made / "voices.tgz") as tar:
        assert tar.getnames() == [f"voices/{name}.pt" for name in OFFICIAL_VOICES]
        data = [tar.extractfile(member).read() for member in tar]  # type: ignore[union-attr]
    groups = {"NATF": 4, "NATM": 4, "VARF": 5, "VARM": 5}
    assert sorted(OFFICIAL_VOICES) == [f"{group}{number}" for group, count in groups.items() for number in range(count)]
    for index, file in enumerate(data):
        fields = torch.load(io.BytesIO(file), map_location="cpu", weights_only=True)
        assert set(fields) == {"embeddings", "cache"}
        assert fields["embeddings"].shape == (voice_frames(index) - 1, 1, 1, 32)
        assert (fields["embeddings"].dtype, fields["cache"].dtype) == (torch.bfloat16, torch.int64)


@pytest.mark.parametrize("index", [0, 1, 2, 3, 17])
def test_a_voice_is_what_the_weights_give_for_its_codes(
    made: Path, weights: Weights, tmp_path: Path, index: int
) -> None:
    config, name, frames = open_checkpoint(made).config, OFFICIAL_VOICES[index], voice_frames(index)
    voice = VoiceShelf(made, tmp_path, config).load(name)
    by_file = plan_prompt(voice, [5, 6], config)
    by_codes = plan_prompt(VoicePrompt(codes=voice_codes(name, frames, config, 5)), [5, 6], config)
    assert torch.equal(by_file.grid[:, frames - 1 :], by_codes.grid[:, frames - 1 :])
    assert by_file.embeddings is not None and len(by_file.embeddings) == frames - 1
    assert torch.equal(by_file.embeddings, weights.temporal.embed(by_codes.grid[:, : frames - 1].T))


def test_the_reference_s_own_voice_file_comes_out_bit_for_bit(
    mini_directory: Path, reference: Mapping[str, np.ndarray]
) -> None:
    codes = torch.from_numpy(reference["voice_codes"]).long()
    ours = voice_fields(codes, mini_directory / WEIGHTS_FILE, read_config(mini_directory / CONFIG_FILE))
    theirs = good_fields(mini_directory)
    assert all(torch.equal(ours[name], theirs[name]) and ours[name].dtype == theirs[name].dtype for name in theirs)


def test_the_page_does_not_call_it_personaplex(made: Path, cache_outside_home: Path) -> None:
    parser = argparse.ArgumentParser()
    add_serve_flags(parser)
    add_model_flags(parser)
    flags = parser.parse_args(["--checkpoint", str(made), "--device", "cpu"])
    settings = read_settings(flags, {CACHE_VARIABLE: str(cache_outside_home)})
    stepper, catalogue = make_stepper(settings, lambda line: None)
    assert catalogue.notice == RANDOM_NOTICE and stepper.slots == 1
