"""8-bit and 4-bit products on a GPU equal what their numbers stand for, at the real model's sizes. Never runs in CI."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from personaplex_app.model.config import LanguageConfig
from personaplex_app.model.fast.linear_kernels import linear_rows
from personaplex_app.model.quantization import Int4Linear, Int8Linear, Int8Matrix

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]
CUDA = torch.device("cuda")
FULL = LanguageConfig()
EPS = 1e-8
SHAPES = {  # outputs, inputs, gated, normed, residual
    "in_proj": (3 * FULL.dim, FULL.dim, False, True, False),
    "out_proj": (FULL.dim, FULL.dim, False, False, True),
    "gate_in": (FULL.hidden, FULL.dim, True, True, False),
    "gate_out": (FULL.dim, FULL.hidden, False, False, True),
    "text_linear": (FULL.text_card, FULL.dim, False, True, False),
    "odd": (72, 200, True, True, True),
}


def _wanted(x: Tensor, weight: Tensor, alpha: Tensor | None, gated: bool, residual: Tensor | None) -> Tensor:
    """In float32, but for the norm's result, which is rounded as the kernels round it."""
    if alpha is not None:
        x = F.rms_norm(x.float(), alpha.shape, alpha.float(), EPS).to(x.dtype)
    y = x.float() @ weight.float().T
    if gated:
        first, second = y.chunk(2, -1)
        y = F.silu(first) * second
    return y if residual is None else y + residual.float()


@pytest.mark.parametrize("rows", [1, 2, 16, 33, 128])
@pytest.mark.parametrize("name", list(SHAPES))
def test_eight_bits(name: str, rows: int) -> None:
    outputs, inputs, gated, normed, added = SHAPES[name]
    generator = torch.Generator(CUDA).manual_seed(rows)
    source = torch.randn(outputs * (1 + gated), inputs, generator=generator, device=CUDA) * inputs**-0.5
    linear = Int8Linear(inputs, len(source))
    linear.allocate(CUDA)
    linear.fill(source.bfloat16())
    x = torch.randn(rows, inputs, generator=generator, device=CUDA).bfloat16()
    alpha = torch.rand(inputs, generator=generator, device=CUDA).bfloat16() + 0.5 if normed else None
    residual = torch.randn(rows, outputs, generator=generator, device=CUDA).bfloat16() if added else None
    got = linear_rows(x, linear.weight, alpha=alpha, eps=EPS, gated=gated, residual=residual)
    wanted = _wanted(x, linear.weight.dense(torch.float32), alpha, gated, residual)
    assert (got.float() - wanted).abs().max() < 0.03 * wanted.abs().max()
    assert F.cosine_similarity(got.float().flatten(), wanted.flatten(), 0) > 0.9999
    assert F.cosine_similarity(linear.weight.dense(torch.float32), source, 1).min() > 0.999


@pytest.mark.parametrize("rows", [1, 2, 16])
@pytest.mark.parametrize("name", ["in_proj", "gate_in", "gate_out"])
def test_four_bits(name: str, rows: int) -> None:
    outputs, inputs, gated, _, added = SHAPES[name]
    generator = torch.Generator(CUDA).manual_seed(rows)
    source = (torch.randn(outputs * (1 + gated), inputs, generator=generator, device=CUDA) * inputs**-0.5).bfloat16()
    linear = Int4Linear(inputs, len(source))
    linear.allocate(CUDA)
    linear.fill(source)
    x = torch.randn(rows, inputs, generator=generator, device=CUDA).bfloat16()
    residual = torch.randn(rows, outputs, generator=generator, device=CUDA).bfloat16() if added else None
    got = linear_rows(x, linear.weight, gated=gated, residual=residual)
    wanted = _wanted(x, source, None, gated, residual)
    assert F.cosine_similarity(got.float().flatten(), wanted.flatten(), 0) > 0.97


def test_eight_bits_are_kept_as_such() -> None:
    linear = Int8Linear(64, 8)
    linear.allocate(CUDA)
    assert isinstance(linear.weight, Int8Matrix) and linear.values.element_size() == 1
