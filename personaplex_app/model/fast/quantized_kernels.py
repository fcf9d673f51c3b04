"""A matrix of 8-bit weights times some vectors, with what follows it in the same kernel.

In: activations [b, K], int8 weights [N, K] with a scale a row. Out: [b, N]. The weights become floats on their way into
the product, so a step reads half the bytes; sums are in float32.
Must not know: layers, models.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from personaplex_app.model.quantization import Int8Matrix

FEW_ROWS = 16  # a tile of the tensor cores


@triton.jit
def _one_row(
    x_ptr, weight_ptr, scale_ptr, residual_ptr, y_ptr, K, N, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = rows < N
    total = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    row_start = rows.to(tl.int64)[:, None] * K
    for start in range(0, K, BLOCK_K):
        columns = start + tl.arange(0, BLOCK_K)
        within = columns < K
        weight = tl.load(weight_ptr + row_start + columns[None, :], mask=inside[:, None] & within[None, :], other=0)
        # 128 more than the number, in the low bits of 2^23: the unit that converts integers is slower.
        bits = (weight.to(tl.uint8, bitcast=True) ^ 0x80).to(tl.uint32) | 0x4B000000
        number = bits.to(tl.float32, bitcast=True) - 8388736.0
        x = tl.load(x_ptr + columns, mask=within, other=0.0).to(tl.float32)
        total += number * x[None, :]
    y = tl.sum(total, 1) * tl.load(scale_ptr + rows, mask=inside, other=0.0)
    y += tl.load(residual_ptr + rows, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + rows, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _rows(
    x_ptr,
    weight_ptr,
    scale_ptr,
    residual_ptr,
    y_ptr,
    M,
    N,
    K,
    GATED: tl.constexpr,
    RESIDUAL: tl.constexpr,
    EVEN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):
    outputs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    batch = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_K)
    live, inside = batch < M, outputs < N
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    value = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    x_at = x_ptr + batch[:, None] * K + columns[None, :]
    weight_at = weight_ptr + outputs[None, :].to(tl.int64) * K + columns[:, None]
    value_at = weight_at + tl.cast(N, tl.int64) * K
    for start in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        if EVEN:
            x = tl.load(x_at + start, mask=live[:, None], other=0.0)
            weight = tl.load(weight_at + start)
        else:
            within = start + columns < K
            x = tl.load(x_at + start, mask=live[:, None] & within[None, :], other=0.0)
            weight = tl.load(weight_at + start, mask=inside[None, :] & within[:, None], other=0)
        total = tl.dot(x, weight.to(x.dtype), total, input_precision="ieee")
        if GATED:
            if EVEN:
                second = tl.load(value_at + start)
            else:
                second = tl.load(value_at + start, mask=inside[None, :] & within[:, None], other=0)
            value = tl.dot(x, second.to(x.dtype), value, input_precision="ieee")
    scale = tl.load(scale_ptr + outputs, mask=inside, other=0.0)[None, :]
    total = total * scale
    if GATED:
        value = value * tl.load(scale_ptr + N + outputs, mask=inside, other=0.0)[None, :]
        total = total / (1.0 + tl.exp(-total)) * value
    at = batch[:, None] * N + outputs[None, :]
    mask = live[:, None] & inside[None, :]
    if RESIDUAL:
        total += tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), mask=mask)


def linear_int8(
    x: Tensor,
    matrix: Int8Matrix,
    *,
    gated: bool = False,
    residual: Tensor | None = None,
) -> Tensor:
    """`matrix @ x`, one launch.

    Args:
        x: [b, K] contiguous. matrix: [N, K], or [2 N, K] where gated: SiLU of the first half times the second.
        residual: [b, N], added.
    Returns:
        [b, N] in x's type.
    """
    (b, width), rows = x.shape, matrix.values.shape[0]
    outputs = rows // 2 if gated else rows
    y = torch.empty((b, outputs), dtype=x.dtype, device=x.device)
    if b == 1 and residual is not None and not gated:
        block_k = min(1024, triton.next_power_of_2(width))
        _one_row[(triton.cdiv(outputs, 2),)](
            x, matrix.values, matrix.scales, residual, y, width, outputs, BLOCK_N=2, BLOCK_K=block_k, num_warps=2
        )
        return y
    block_m, block_n, block_k, stages, warps = _tile(b, outputs)
    _rows[(triton.cdiv(outputs, block_n), triton.cdiv(b, block_m))](
        x,
        matrix.values,
        matrix.scales,
        residual,
        y,
        b,
        outputs,
        width,
        GATED=gated,
        RESIDUAL=residual is not None,
        EVEN=width % block_k == 0 and outputs % block_n == 0,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        STAGES=stages,
        num_warps=warps,
    )
    return y


def _tile(b: int, outputs: int) -> tuple[int, int, int, int, int]:
    """Rows, outputs and columns of a program's tile, stages, warps: the fastest of those tried on an H200."""
    if b > FEW_ROWS:
        return 64, 32, 128, 3, 4
    return (16, 16, 128, 5, 2) if outputs <= 8192 else (16, 32, 256, 3, 4)
