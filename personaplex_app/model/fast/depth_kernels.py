"""The depth transformer's attention: at most eight positions, so it is done over again where its result is needed.

In: projections of one layer, what the earlier codebooks left. Out: attention, or attention times the output matrix
with the residual added. Must not know: codebooks' meaning, drawing.
Keys and values of a layer lie as [2, b, 8, D].
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_FUSED_ROWS = 4


@triton.jit
def _attended(projected_ptr, cache_ptr, row, rows, step, scale, STEPS: tl.constexpr, H: tl.constexpr, D: tl.constexpr):
    """[D] of one row: softmax over its positions up to `step`, all heads at once."""
    place = tl.arange(0, STEPS)
    width = tl.arange(0, D)
    base = projected_ptr + row * 3 * D + width
    query = tl.load(base).to(tl.float32) * scale
    key, value = tl.load(base + D).to(tl.float32), tl.load(base + 2 * D).to(tl.float32)
    past = cache_ptr + (row * STEPS + place[:, None]) * D + width[None, :]
    earlier = (place < step)[:, None]
    now = (place == step)[:, None]
    keys = tl.where(now, key[None, :], tl.load(past, mask=earlier, other=0.0).to(tl.float32))
    values = tl.load(past + rows * STEPS * D, mask=earlier, other=0.0).to(tl.float32)
    values = tl.where(now, value[None, :], values)
    scores = tl.sum(tl.reshape(keys * query[None, :], [STEPS, H, D // H]), 2)
    scores = tl.where((place <= step)[:, None], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 0)[None, :])
    weights = weights / tl.sum(weights, 0)[None, :]
    mixed = tl.sum(tl.reshape(values, [STEPS, H, D // H]) * weights[:, :, None], 0)
    return tl.reshape(mixed, [D])


@triton.jit
def _note(projected_ptr, cache_ptr, row, rows, step, STEPS: tl.constexpr, D: tl.constexpr):
    """The row's new key and value, for the codebooks to come."""
    width = tl.arange(0, D)
    base = projected_ptr + row * 3 * D + width
    at = cache_ptr + (row * STEPS + step) * D + width
    tl.store(at, tl.load(base + D))
    tl.store(at + rows * STEPS * D, tl.load(base + 2 * D))


@triton.jit
def _attend_and_project(
    projected_ptr,
    cache_ptr,
    weight_ptr,
    residual_ptr,
    y_ptr,
    step,
    scale,
    B: tl.constexpr,
    STEPS: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    width = tl.arange(0, D)
    weight = tl.load(weight_ptr + rows[:, None] * D + width[None, :]).to(tl.float32)
    for row in tl.static_range(B):
        mixed = _attended(projected_ptr, cache_ptr, row, B, step, scale, STEPS, H, D)
        mixed = mixed.to(projected_ptr.dtype.element_ty).to(tl.float32)
        y = tl.sum(weight * mixed[None, :], 1) + tl.load(residual_ptr + row * D + rows).to(tl.float32)
        tl.store(y_ptr + row * D + rows, y.to(y_ptr.dtype.element_ty))
        if tl.program_id(0) == row:
            _note(projected_ptr, cache_ptr, row, B, step, STEPS, D)


@triton.jit
def _attend_rows(
    projected_ptr, cache_ptr, y_ptr, rows, step, scale, STEPS: tl.constexpr, H: tl.constexpr, D: tl.constexpr
):
    row = tl.program_id(0)
    mixed = _attended(projected_ptr, cache_ptr, row, rows, step, scale, STEPS, H, D)
    tl.store(y_ptr + row * D + tl.arange(0, D), mixed.to(y_ptr.dtype.element_ty))
    _note(projected_ptr, cache_ptr, row, rows, step, STEPS, D)


def depth_attend(projected: Tensor, cache: Tensor, weight: Tensor, residual: Tensor, step: int, heads: int) -> Tensor:
    """One layer's attention, output matrix and residual for b rows.

    Args:
        projected: [b, 3 D]. cache: [2, b, 8, D], written at `step`. weight: [D, D]. residual: [b, D].
    Returns:
        [b, D].
    """
    b, width = residual.shape
    y = torch.empty_like(residual)
    scale = (width // heads) ** -0.5
    sizes = {"STEPS": cache.shape[2], "H": heads, "D": width}
    if b <= MOST_FUSED_ROWS:
        block_n = min(8, width // max(b, 4))
        grid = (width // block_n,)
        _attend_and_project[grid](
            projected, cache, weight, residual, y, step, scale, B=b, **sizes, BLOCK_N=block_n, num_warps=4
        )
        return y
    _attend_rows[(b,)](projected, cache, y, b, step, scale, **sizes, num_warps=4)
    return torch.addmm(residual, y, weight.T)
