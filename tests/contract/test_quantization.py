"""8-bit and 4-bit weights: what they stand for, which matrices they are, and what cannot be had."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.config import LanguageConfig
from personaplex_app.model.loading import load_weights, random_weights
from personaplex_app.model.quantization import PIECE_ROWS, Int4Linear, Int8Linear, Int8Matrix

CPU = torch.device("cpu")
CONFIG = LanguageConfig(
    dim=128, layers=2, heads=2, hidden=256, context=64, text_card=40, audio_card=30,
    depth_dim=16, depth_layers=1, depth_heads=2, depth_hidden=12,
)  # fmt: skip


def _matrix(rows: int, columns: int) -> torch.Tensor:
    """Rows of very different sizes."""
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows, columns, generator=generator) * torch.logspace(-3, 1, rows)[:, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_eight_bits_are_half_a_step_from_each_weight_in_every_row(dtype: torch.dtype) -> None:
    source = _matrix(PIECE_ROWS + 3, 64).to(dtype)
    linear = Int8Linear(64, len(source))
    linear.allocate(CPU)
    linear.fill(source)
    source = source.float()
    steps = source.abs().amax(1, keepdim=True) / 127
    assert isinstance(linear.weight, Int8Matrix) and linear.values.abs().max() == 127
    assert ((linear.weight.dense(torch.float32) - source).abs() <= 0.501 * steps).all()


def test_four_bits_multiply_to_about_the_same() -> None:
    source = _matrix(64, 256).bfloat16()
    linear = Int4Linear(256, 64)
    linear.allocate(CPU)
    linear.fill(source)
    x = torch.randn(200, 256, generator=torch.Generator().manual_seed(2)).bfloat16()
    wanted, got = x.float() @ source.float().T, linear(x).float()
    similar = torch.nn.functional.cosine_similarity(wanted, got, dim=0)
    assert (similar > 0.98).all() and linear.packed.numel() == 64 * 128


def test_a_seed_makes_the_same_numbers_in_eight_bits() -> None:
    plain = random_weights(CONFIG, CPU, torch.float32, seed=4)
    small = random_weights(CONFIG, CPU, torch.float32, seed=4, quantization="int8")
    gate: Any = small.temporal.layers[1].gate_out
    wanted: Any = plain.temporal.layers[1].gate_out
    assert torch.nn.functional.cosine_similarity(gate.weight.dense(torch.float32), wanted.weight).min() > 0.999
    assert torch.equal(small.depth.heads[7].weight, plain.depth.heads[7].weight), "the depth transformer stays whole"
    assert torch.equal(small.temporal.audio_emb.weight, plain.temporal.audio_emb.weight)
    kinds = {name: type(part) for name, part in small.temporal.named_modules() if isinstance(part, Int8Linear)}
    assert len(kinds) == 4 * CONFIG.layers + 1


def test_a_checkpoint_in_eight_bits_gives_nearly_its_logits(mini_checkpoint: Checkpoint) -> None:
    whole = load_weights(mini_checkpoint, CPU, torch.float32)
    small = load_weights(mini_checkpoint, CPU, torch.float32, "int8")
    config = mini_checkpoint.config.language
    columns = torch.randint(0, 30, (12, 17), generator=torch.Generator().manual_seed(1))
    logits = []
    for weights in (whole, small):
        kv = torch.zeros(config.layers, 2, config.heads, 12, config.head_dim)
        with torch.inference_mode():
            logits.append(weights.temporal.prefill(weights.temporal.embed(columns), kv)[1])
    assert torch.nn.functional.cosine_similarity(*logits).min() > 0.995


def test_widths_without_a_four_bit_form_are_refused(mini_checkpoint: Checkpoint) -> None:
    with pytest.raises(InvalidInput, match="has no 4-bit form"):
        load_weights(mini_checkpoint, CPU, torch.float32, "int4")


def test_without_torchao_the_command_that_mends_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("torchao")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchao", None)
    with pytest.raises(InvalidInput, match="pip install torchao"):
        random_weights(CONFIG, CPU, torch.float32, quantization="int8")
