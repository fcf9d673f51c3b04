"""`moshi`'s own LMModel, built with 8 depth steps, takes our selection of the file and gives our numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import torch
from moshi.models.lm import LMModel
from safetensors.torch import load_file
from torch import Tensor

from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.config import CODEBOOKS, STREAMS
from personaplex_app.model.loading import Weights
from personaplex_app.model.transformer import Span, rotation

COLUMNS = 50
TOLERANCE = 1e-5


def _selection(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Every tensor that our loader reads, under the file's own name, its rows alone."""
    file = load_file(checkpoint.weights)
    stacked: dict[str, dict[int, Tensor]] = {}
    whole: dict[str, Tensor] = {}
    for item in checkpoint.placements():
        if item.rows is None:
            whole[item.source] = file[item.source]
        else:
            stacked.setdefault(item.source, {})[item.rows.start] = file[item.source][item.rows]
    joined = {name: torch.cat([parts[at] for at in sorted(parts)]) for name, parts in stacked.items()}
    return whole | joined


@pytest.fixture(scope="module")
def oracle(mini_checkpoint: Checkpoint) -> LMModel:
    config = json.loads((mini_checkpoint.directory / "config.json").read_text())["lm_config"]
    config.pop("depformer_causal")
    model = LMModel(**(config | {"dep_q": CODEBOOKS}), device="cpu", dtype=torch.float32)
    model.load_state_dict(_selection(mini_checkpoint), strict=True)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def columns(mini_weights: Weights) -> Tensor:
    """Random tokens int64 [COLUMNS, 17]."""
    generator = torch.Generator().manual_seed(5)
    config = mini_weights.config
    columns = torch.randint(0, config.audio_card, (COLUMNS, STREAMS), generator=generator)
    columns[:, 0] %= config.text_card
    return columns


@pytest.fixture(scope="module", autouse=True)
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def _cache(weights: Weights) -> Tensor:
    config = weights.config
    return torch.zeros(config.layers, 1, 2, config.heads, 64, config.head_dim)


def test_prefill_gives_the_oracle_s_hidden_and_logits(oracle: LMModel, mini_weights: Weights, columns: Tensor) -> None:
    hidden, logits = mini_weights.temporal.prefill(mini_weights.temporal.embed(columns), _cache(mini_weights)[:, 0])
    their_hidden, their_logits = oracle.forward_text(columns.T[None])
    torch.testing.assert_close(hidden, their_hidden[0], rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(logits, their_logits[0, 0], rtol=0, atol=TOLERANCE)


def test_steps_give_the_oracle_s_logits(oracle: LMModel, mini_weights: Weights, columns: Tensor) -> None:
    config, cache, logits = mini_weights.config, _cache(mini_weights), []
    for place, column in enumerate(columns):
        position = torch.tensor([place])
        cos, sin = rotation(position, config.head_dim, config.max_period)
        span = Span(cos[:, None, None], sin[:, None, None], position, [(0, place, place + 1)], None)
        logits.append(mini_weights.temporal.step(mini_weights.temporal.embed(column[None]), cache, span)[1])
    _, their_logits = oracle.forward_text(columns.T[None])
    torch.testing.assert_close(torch.cat(logits), their_logits[0, 0], rtol=0, atol=TOLERANCE)


def test_masked_steps_of_the_gpu_s_way_give_the_same_logits(mini_weights: Weights, columns: Tensor) -> None:
    """The batched attention that a GPU runs, here on the CPU."""
    config, cache, logits = mini_weights.config, _cache(mini_weights), []
    expected = mini_weights.temporal.prefill(mini_weights.temporal.embed(columns), _cache(mini_weights)[:, 0])[1]
    for place, column in enumerate(columns):
        position = torch.tensor([place])
        cos, sin = rotation(position, config.head_dim, config.max_period)
        mask = (torch.arange(64) <= place)[None, None, None]
        span = Span(cos[:, None, None], sin[:, None, None], position, [], mask)
        logits.append(mini_weights.temporal.step(mini_weights.temporal.embed(column[None]), cache, span)[1])
    torch.testing.assert_close(torch.cat(logits), expected, rtol=0, atol=TOLERANCE)


def test_depth_steps_give_the_oracle_s_logits(oracle: LMModel, mini_weights: Weights, columns: Tensor) -> None:
    hidden, _ = mini_weights.temporal.prefill(mini_weights.temporal.embed(columns), _cache(mini_weights)[:, 0])
    seen: list[Tensor] = []

    def teacher(codebook: int, logits: Tensor) -> Tensor:
        seen.append(logits)
        return columns[:, 1 + codebook]

    codes = mini_weights.depth(hidden, columns[:, 0], teacher, CODEBOOKS)
    theirs = oracle.forward_depformer_training(columns.T[None], hidden[None])
    assert torch.equal(codes, columns[:, 1 : 1 + CODEBOOKS])
    torch.testing.assert_close(torch.stack(seen), theirs[0], rtol=0, atol=TOLERANCE)
