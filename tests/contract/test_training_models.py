"""What the training computes fast is what the app computes step by step: codec, language model, grid of positions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from moshi.models import loaders
from safetensors.torch import save_file

from personaplex_app.audio import split_frames
from personaplex_app.model.checkpoint import CODEC_FILE, CONFIG_FILE, Checkpoint
from personaplex_app.model.checkpoint import file_tensors as expected_tensors
from personaplex_app.model.codec import load_codec
from personaplex_app.model.config import CheckpointConfig, read_config
from personaplex_app.model.loading import load_weights
from personaplex_app.model.prompts import VoicePrompt, plan_prompt
from personaplex_app.sound_files import read_sound
from training.codec.in_a_call import decode, encode
from training.language.__main__ import architecture
from training.language.disturbance import disturbed
from training.language.export import file_tensors
from training.language.losses import losses, positions_of, silent_batch
from training.language.network import Network
from training.language.steps import Steps, make_optimizer
from training.sizes import TOY, language_config

FIXTURES = Path(__file__).parents[1] / "fixtures"
DEMO = Path(__file__).parents[2] / "personaplex_app" / "checkpoints" / "demo"
CPU = torch.device("cpu")
FRAMES = 75


@torch.inference_mode()
def test_a_whole_stream_is_coded_as_in_a_call() -> None:
    config = read_config(DEMO / CONFIG_FILE)
    codec = load_codec(DEMO / CODEC_FILE, config, CPU, 1)
    frames = torch.from_numpy(np.resize(split_frames(read_sound(FIXTURES / "offline_input.wav")), (FRAMES, 1920)))
    called = torch.stack([codec.encode(frame[None])[0] for frame in frames], 1)
    spoken = torch.cat([codec.decode(column[None]) for column in called.T], 1)
    mimi = loaders.get_mimi(None, config.mimi, num_codebooks=8)
    mimi.load_state_dict(codec.mimi.state_dict())
    whole = frames.reshape(1, -1)
    differing = (encode(mimi, whole)[0] != called).float().mean()
    theirs = (mimi.encode(whole[:, None])[0] != called).float().mean()
    print(f"codes that differ from a call's: {differing:.4f}; in moshi's own pass {theirs:.4f}")
    assert differing <= 0.005  # codebook entries that lie closer together than float32 rounds
    assert theirs > 4 * max(0.005, float(differing)), "then this attention would not be needed"
    torch.testing.assert_close(decode(mimi, called[None]), spoken, rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def network() -> Network:
    torch.manual_seed(0)
    return Network(architecture(TOY.language, 400)).eval()


@torch.inference_mode()
def test_the_network_computes_what_the_app_computes(network: Network, tmp_path: Path) -> None:
    config, tensors = network.config, file_tensors(network)
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == expected_tensors(config, 8)
    save_file(tensors, tmp_path / "model.safetensors")
    weights = load_weights(Checkpoint(tmp_path, CheckpointConfig(language=config), 8), CPU, torch.float32)
    grid = torch.randint(0, 400, (1, 17, 50))
    hidden, logits = network.temporal(grid, torch.arange(50)[None])
    cache = torch.zeros(config.layers, 2, config.heads, config.context, config.head_dim)
    their_hidden, their_logits = weights.temporal.prefill(weights.temporal.embed(grid[0].T), cache)
    torch.testing.assert_close(hidden[0], their_hidden, rtol=0, atol=1e-4)
    torch.testing.assert_close(logits[0], their_logits, rtol=0, atol=1e-4)
    tokens, seen = torch.randint(0, 400, (50, 9)), []

    def choose(step: int, scores: torch.Tensor) -> torch.Tensor:
        seen.append(scores)
        return tokens[:, step + 1]

    weights.depth(their_hidden, tokens[:, 0], choose, 8)
    torch.testing.assert_close(network.depth(their_hidden, tokens[:, :8]), torch.stack(seen), rtol=0, atol=1e-4)


def test_a_silent_batch_trains_every_part_of_the_network() -> None:
    torch.manual_seed(0)
    fresh = Network(architecture(TOY.language, 400))
    made = losses(silent_batch(2, 40, CPU), fresh, 30)
    (made["text"] + made["audio"] + made["heard"]).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in fresh.parameters())


def test_what_training_sees_is_disturbed_in_the_talk_alone_and_never_the_words() -> None:
    torch.manual_seed(0)
    config = architecture(TOY.language, 400)
    grid = torch.full((600, 17, 120), 7)
    in_talk = (torch.arange(120) >= 20).expand(600, -1)
    seen = disturbed(grid, in_talk, config)
    assert (seen[:, 0] == 7).all() and (seen[:, :, :20] == 7).all()
    changed, unknown = (seen != 7)[:, :, 20:].float(), (seen == config.audio_card)[:, :, 20:].float()
    assert 0.02 < changed[:, 1:9].mean() < 0.04 and not unknown[:, 1:9].any(), "the agent's codes: some are random"
    first, last = unknown[:, 9].mean(), unknown[:, 16].mean()
    assert 0.02 < first < 0.05 and 0.38 < last < 0.5, "the first codebook is nearly always known"
    per_talk = (changed - unknown)[:, 9].mean(1)
    assert per_talk.min() == 0 and per_talk.max() > 0.2, "each talk has a rate of its own"


def test_losses_of_unseen_talks_are_those_of_the_whole_network() -> None:
    torch.manual_seed(0)
    fresh = Network(architecture(TOY.language, 400))
    steps = Steps(fresh, make_optimizer(fresh, 1e-3, CPU), 60, CPU)
    batch = silent_batch(2, 40, CPU)
    assert steps.measure(batch)["text"] == steps.measure(batch)["text"] and fresh.training
    assert float(steps.take(batch, 0.0)["text"]) != float(steps.take(batch, 0.0)["text"]), "training drops at random"


def test_steps_learn_a_batch_and_take_the_rate_they_are_given() -> None:
    torch.manual_seed(0)
    fresh = Network(architecture(TOY.language, 400))
    steps = Steps(fresh, make_optimizer(fresh, 1e-3, CPU), 60, CPU)
    batch = silent_batch(2, 40, CPU)
    before = [parameter.detach().clone() for parameter in fresh.parameters()]
    first = steps.take(batch, 0.0)
    assert all(torch.equal(one, other) for one, other in zip(before, fresh.parameters(), strict=True))
    for _ in range(20):
        last = steps.take(batch, 3e-3)
    assert last["text"] < 0.2 * first["text"] and last["audio"] < 0.8 * first["audio"]


def test_positions_of_frames() -> None:
    config = architecture(TOY.language, 400)
    tokens = torch.arange(17)[None, :, None] * 100 + torch.arange(5)
    grid = positions_of(tokens.to(torch.int16), config)[0]
    assert grid[0].tolist() == [400, 1, 2, 3, 4], "text is not delayed"
    assert grid[1].tolist() == [2048, 101, 102, 103, 104] and grid[9].tolist() == [2048, 901, 902, 903, 904]
    assert grid[2].tolist() == [2048, 2048, 201, 202, 203] and grid[16].tolist() == [2048, 2048, 1601, 1602, 1603]


def test_the_package_tells_the_architecture_that_was_trained(network: Network, tmp_path: Path) -> None:

    (tmp_path / CONFIG_FILE).write_text(json.dumps({"lm_config": language_config(TOY.language, 400)}), encoding="utf-8")
    assert read_config(tmp_path / CONFIG_FILE).language == network.config


def test_talks_stand_on_the_grid_as_the_app_lays_out_prompts(network: Network) -> None:
    config = CheckpointConfig(language=network.config)
    codes, text = torch.randint(0, 2048, (8, 20)), [7, 8, 9]
    grid = plan_prompt(VoicePrompt(codes=codes), text, config).grid
    frames = torch.full((17, grid.shape[1]), 3)
    frames[1:9], frames[9:] = torch.tensor(config.silence_codes)[:, None], torch.tensor(config.sine_codes)[:, None]
    frames[1:9, :20], frames[0, 26:29] = codes, torch.tensor(text)
    assert torch.equal(positions_of(frames[None], network.config)[0], grid)
