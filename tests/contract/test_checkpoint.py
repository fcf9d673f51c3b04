"""A checkpoint is loaded whole and exact, or refused in one sentence that names what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.golden import CASES, Reference, case_talk
from support.variants import Tensors, copied, replaced, with_config, with_tensors

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import (
    CODEC_FILE,
    CONFIG_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    Checkpoint,
    open_checkpoint,
)
from personaplex_app.model.config import CheckpointConfig, LanguageConfig, read_config
from personaplex_app.model.loading import load_weights

CPU = torch.device("cpu")


def _put(name: str, make: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[name] = make(tensors[name]).contiguous()

    return change


def _add(tensors: Tensors) -> None:
    tensors["linears.16.weight"] = torch.zeros(2, 2)
    tensors["voice_head.weight"] = torch.zeros(2, 2)


def _keep_eight(tensors: Tensors) -> None:
    """What remains when only the agent's steps are saved."""
    for name in list(tensors):
        parts = name.split(".")
        step = {"linears": 1, "depformer_in": 1, "depformer_emb": 1, "depformer": 4}.get(parts[0])
        if parts[0] == "depformer" and "self_attn" in parts:
            tensors[name] = tensors[name][: len(tensors[name]) // 2].clone()
        elif step and parts[step].isdigit() and int(parts[step]) >= 8 - (parts[0] == "depformer_emb"):
            del tensors[name]


def _halved(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[: len(tensor) // 2].clone()


REFUSED = {
    "missing": (lambda t: t.pop("out_norm.alpha"), r"lacks the tensor out_norm.alpha of shape \[1, 1, 32\]"),
    "missing user step": (lambda t: t.pop("linears.12.weight"), r"lacks the tensor linears.12.weight"),
    "misshapen": (
        _put("text_linear.weight", _halved),
        r"text_linear.weight has shape \[256, 32\], expected",
    ),
    "misshapen stack": (
        _put("depformer.layers.1.self_attn.out_proj.weight", _halved),
        r"depformer.layers.1.self_attn.out_proj.weight has shape \[128, 16\], expected is \[256, 16\]",
    ),
    "flat": (_put("emb.3.weight", torch.flatten), r"emb.3.weight has shape \[65568\]"),
    "surplus": (_add, "unknown tensor linears.16.weight and 1 more; --allow-surplus"),
    "integers": (_put("emb.3.weight", lambda t: t.long()), r"emb.3.weight is I64; expected is one of \['BF16'"),
    "double": (_put("emb.3.weight", lambda t: t.double()), r"emb.3.weight is F64"),
}


@pytest.mark.parametrize("change", REFUSED, ids=str)
def test_tensors_that_do_not_fit_are_named(mini_directory: Path, tmp_path: Path, change: str) -> None:
    act, sentence = REFUSED[change]
    directory = with_tensors(mini_directory, tmp_path / "variant", act)
    with pytest.raises(InvalidInput, match=sentence) as refused:
        open_checkpoint(directory)
    assert WEIGHTS_FILE in refused.value.sentence and "\n" not in refused.value.sentence


def test_surplus_tensors_are_left_out_where_allowed(mini_directory: Path, tmp_path: Path) -> None:
    directory = with_tensors(mini_directory, tmp_path / "variant", _add)
    checkpoint = open_checkpoint(directory, allow_surplus=True)
    assert "voice_head.weight" not in {item.source for item in checkpoint.placements()}
    assert load_weights(checkpoint, CPU, torch.float32).config == checkpoint.config.language


@pytest.mark.parametrize("name", ["text_emb.weight", "emb.15.weight", "depformer.layers.0.gating.7.linear_in.weight"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused_by_name(
    mini_directory: Path, tmp_path: Path, name: str, value: float
) -> None:
    def spoil(tensors: Tensors) -> None:
        tensors[name][-1, 0] = value

    checkpoint = open_checkpoint(with_tensors(mini_directory, tmp_path / "variant", spoil))
    with pytest.raises(InvalidInput, match=f"tensor {name} holds a number that is not finite"):
        load_weights(checkpoint, CPU, torch.float32)


def test_a_file_of_eight_steps_gives_the_same_tokens(
    mini_directory: Path, mini_checkpoint: Checkpoint, reference: Reference, tmp_path: Path
) -> None:
    checkpoint = open_checkpoint(with_tensors(mini_directory, tmp_path / "variant", _keep_eight))
    assert (mini_checkpoint.stacked_steps, checkpoint.stacked_steps) == (16, 8)
    ours, theirs = case_talk(CASES[0], load_weights(checkpoint, CPU, torch.float32), checkpoint, reference)
    np.testing.assert_array_equal(ours, theirs)


def test_the_user_s_steps_are_never_read(mini_directory: Path, tmp_path: Path) -> None:
    def spoil(tensors: Tensors) -> None:
        tensors["linears.8.weight"].fill_(float("nan"))
        tensors["depformer.layers.0.self_attn.in_proj_weight"][8 * 48 :] = float("nan")

    checkpoint = open_checkpoint(with_tensors(mini_directory, tmp_path / "variant", spoil))
    weights = load_weights(checkpoint, CPU, torch.float32)
    assert all(parameter.isfinite().all() for parameter in weights.depth.parameters())


def test_every_parameter_is_filled_from_the_file(mini_checkpoint: Checkpoint, mini_weights: Any) -> None:
    file = load_file(mini_checkpoint.weights)
    rows = mini_weights.config.audio_card + 1
    assert torch.equal(mini_weights.temporal.audio_emb.weight[5 * rows : 6 * rows], file["emb.5.weight"])
    assert torch.equal(mini_weights.depth.in_proj.weight[7 * 16 :], file["depformer_in.7.weight"])
    stacked = file["depformer.layers.1.self_attn.in_proj_weight"]
    assert torch.equal(mini_weights.depth.steps[3][1].in_proj.weight, stacked[3 * 48 : 4 * 48])


@pytest.mark.parametrize("name", [WEIGHTS_FILE, CODEC_FILE, TOKENIZER_FILE])
def test_missing_files_are_named(mini_directory: Path, tmp_path: Path, name: str) -> None:
    directory = copied(mini_directory, tmp_path / "variant")
    (directory / name).unlink()
    with pytest.raises(InvalidInput, match=f"lacks the file {name}"):
        open_checkpoint(directory)


def test_no_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="There is no checkpoint directory"):
        open_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize("size", [0, 7, 100, 500_000, 9_000_000])
def test_a_truncated_file_is_refused(mini_directory: Path, tmp_path: Path, size: int) -> None:
    directory = copied(mini_directory, tmp_path / "variant")
    replaced(directory / WEIGHTS_FILE, (mini_directory / WEIGHTS_FILE).read_bytes()[:size])
    with pytest.raises(InvalidInput, match="is not a whole safetensors file"):
        open_checkpoint(directory)


def test_without_a_config_the_released_sizes_hold(mini_directory: Path, tmp_path: Path) -> None:
    directory = copied(mini_directory, tmp_path / "variant")
    (directory / CONFIG_FILE).unlink()
    assert read_config(directory / CONFIG_FILE) == CheckpointConfig()
    with pytest.raises(InvalidInput, match=r"text_emb.weight has shape \[513, 32\], expected is \[32001, 4096\]"):
        open_checkpoint(directory)


def test_the_released_sizes() -> None:
    released = LanguageConfig()
    assert (released.dim, released.layers, released.heads, released.hidden) == (4096, 32, 32, 11264)
    assert (released.depth_dim, released.depth_layers, released.depth_heads, released.depth_hidden) == (
        1024,
        6,
        16,
        2816,
    )
    assert (released.text_card, released.audio_card, released.context) == (32_000, 2048, 3000)


def test_a_richer_config_is_accepted(mini_directory: Path, tmp_path: Path) -> None:
    def enrich(config: dict[str, Any]) -> None:
        config.update(model_type="personaplex", trained_positions=512, sampling={"text_top_k": 5})
        config["lm_config"]["future_option"] = {"a": 1}

    config = open_checkpoint(with_config(mini_directory, tmp_path / "variant", enrich)).config
    assert config.trained_positions == 512 and config.sampling.text_top_k == 5
