"""A matrix times a few vectors, with the norm before it and what follows it in the same kernel, for a row or a few.

In: activations [b, K], a weight matrix [N, K] in the same type. Out: [b, N]. Each program streams some rows of the
matrix past the registers once: the step of one call is bound by reading the weights.
Must not know: layers, models. Arithmetic in float32; the norm's scale is applied after the product, which is the same.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from personaplex_app.model.fast.quantized_kernels import linear_int8
from personaplex_app.model.quantization import Int4Matrix, Int8Matrix

MOST_ROWS = 1  # with two the library's product is as fast


@triton.jit
def _linear(
    x_ptr,
    weight_ptr,
    alpha_ptr,
    residual_ptr,
    y_ptr,
    K,
    N,
    eps,
    B: tl.constexpr,
    NORM: tl.constexpr,
    GATED: tl.constexpr,
    RESIDUAL: tl.constexpr,
    EVEN_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = rows < N
    batch = tl.arange(0, B)
    total = tl.zeros([B, BLOCK_N, BLOCK_K], tl.float32)
    gate = tl.zeros([B, BLOCK_N, BLOCK_K], tl.float32)
    squares = tl.zeros([B, BLOCK_K], tl.float32)
    row_start = rows.to(tl.int64)[:, None] * K
    for start in range(0, K, BLOCK_K):
        columns = start + tl.arange(0, BLOCK_K)
        if EVEN_K:
            weight = tl.load(weight_ptr + row_start + columns, mask=inside[:, None], other=0.0)
            x = tl.load(x_ptr + batch[:, None] * K + columns).to(tl.float32)
        else:
            within = columns < K
            weight = tl.load(weight_ptr + row_start + columns, mask=inside[:, None] & within, other=0.0)
            x = tl.load(x_ptr + batch[:, None] * K + columns, mask=within, other=0.0).to(tl.float32)
        if NORM:
            squares += x * x
            if EVEN_K:
                x = x * tl.load(alpha_ptr + columns).to(tl.float32)
            else:
                x = x * tl.load(alpha_ptr + columns, mask=columns < K, other=0.0).to(tl.float32)
        total += weight.to(tl.float32)[None] * x[:, None, :]
        if GATED:
            lower = weight_ptr + (N + rows).to(tl.int64)[:, None] * K + columns
            if EVEN_K:
                second = tl.load(lower, mask=inside[:, None], other=0.0)
            else:
                second = tl.load(lower, mask=inside[:, None] & (columns < K), other=0.0)
            gate += second.to(tl.float32)[None] * x[:, None, :]
    y = tl.sum(total, 2)
    if NORM:
        scale = 1.0 / tl.sqrt(tl.sum(squares, 1) / K + eps)
        y = y * scale[:, None]
    if GATED:
        value = tl.sum(gate, 2)
        if NORM:
            value = value * scale[:, None]
        y = y / (1.0 + tl.exp(-y)) * value
    at = batch[:, None] * N + rows[None, :]
    if RESIDUAL:
        y += tl.load(residual_ptr + at, mask=inside[None, :], other=0.0).to(tl.float32)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside[None, :])


@triton.jit
def _held(
    x_ptr,
    weight_ptr,
    alpha_ptr,
    y_ptr,
    N,
    eps,
    tiles,
    K: tl.constexpr,
    NORM: tl.constexpr,
    GATED: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One row, held in registers while several tiles of the matrix stream past it."""
    columns = tl.arange(0, K)
    x = tl.load(x_ptr + columns).to(tl.float32)
    if NORM:
        scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / K + eps)
        x = x * tl.load(alpha_ptr + columns).to(tl.float32) * scale
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = rows < N
        at = rows.to(tl.int64)[:, None] * K + columns[None, :]
        weight = tl.load(weight_ptr + at, mask=inside[:, None], other=0.0, eviction_policy="evict_first")
        if GATED:
            second = tl.load(weight_ptr + at + N * K, mask=inside[:, None], other=0.0, eviction_policy="evict_first")
        y = tl.sum(weight.to(tl.float32) * x[None, :], 1)
        if GATED:
            y = y / (1.0 + tl.exp(-y)) * tl.sum(second.to(tl.float32) * x[None, :], 1)
        tl.store(y_ptr + rows, y.to(y_ptr.dtype.element_ty), mask=inside)


MULTIPROCESSORS = 132
HELD_WIDTHS = (1024, 2048, 4096)


def _held_tile(width: int, gated: bool) -> tuple[int, int]:
    """Rows of a tile, and programs a multiprocessor: the fastest of those tried on an H200."""
    if gated:
        return 4, 8
    return (1, 16) if width > 1024 else (2, 16)


def linear(
    x: Tensor,
    weight: Tensor,
    *,
    alpha: Tensor | None = None,
    eps: float = 0.0,
    gated: bool = False,
    residual: Tensor | None = None,
) -> Tensor:
    """`weight @ x`, one launch.

    Args:
        x: [b, K] contiguous, b a power of two. weight: [N, K], or [2 N, K] where gated.
        alpha: [K], RMS norm of x first.
        gated: SiLU of the first half times the second. residual: [b, N], added.
    Returns:
        [b, N] in x's type.
    """
    b, width = x.shape
    outputs = weight.shape[0] // 2 if gated else weight.shape[0]
    y = torch.empty((b, outputs), dtype=x.dtype, device=x.device)
    if b == 1 and residual is None and width in HELD_WIDTHS and x.dtype != torch.float32:
        block_n, programs = _held_tile(width, gated)
        tiles = triton.cdiv(outputs, block_n)
        _held[(min(tiles, MULTIPROCESSORS * programs),)](
            x,
            weight,
            alpha,
            y,
            outputs,
            eps,
            tiles,
            K=width,
            NORM=alpha is not None,
            GATED=gated,
            BLOCK_N=block_n,
            num_warps=4,
        )
        return y
    block_n, block_k, warps = _tile(width, gated)
    _linear[(triton.cdiv(outputs, block_n),)](
        x,
        weight,
        alpha,
        residual,
        y,
        width,
        outputs,
        eps,
        B=b,
        NORM=alpha is not None,
        GATED=gated,
        RESIDUAL=residual is not None,
        EVEN_K=width % block_k == 0,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        num_warps=warps,
    )
    return y


def _tile(width: int, gated: bool) -> tuple[int, int, int]:
    """Rows and columns of a program's tile, and its warps: the fastest of those tried on an H200."""
    most = 512 if gated else 1024
    return 4, min(most, triton.next_power_of_2(width)), 2 if gated else 4


@triton.jit
def _norm(x_ptr, alpha_ptr, y_ptr, K, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    within = columns < K
    x = tl.load(x_ptr + row * K + columns, mask=within, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, 0) / K + eps)
    y = x * scale * tl.load(alpha_ptr + columns, mask=within, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * K + columns, y.to(y_ptr.dtype.element_ty), mask=within)


@triton.jit
def _gate(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    within = columns < N
    gate = tl.load(x_ptr + row * 2 * N + columns, mask=within, other=0.0).to(tl.float32)
    value = tl.load(x_ptr + row * 2 * N + N + columns, mask=within, other=0.0).to(tl.float32)
    y = gate / (1.0 + tl.exp(-gate)) * value
    tl.store(y_ptr + row * N + columns, y.to(y_ptr.dtype.element_ty), mask=within)


def normed(x: Tensor, alpha: Tensor, eps: float) -> Tensor:
    """RMS norm of [b, K]."""
    out = torch.empty_like(x)
    b, width = x.shape
    _norm[(b,)](x, alpha, out, width, eps, BLOCK=triton.next_power_of_2(width), num_warps=8)
    return out


def gate(y: Tensor) -> Tensor:
    """[b, 2 N] to [b, N]: SiLU of the first half times the second."""
    b, outputs = y.shape[0], y.shape[1] // 2
    out = torch.empty((b, outputs), dtype=y.dtype, device=y.device)
    _gate[(b, triton.cdiv(outputs, 1024))](y, out, outputs, BLOCK=1024, num_warps=4)
    return out


def linear_rows(
    x: Tensor,
    weight: Tensor | Int8Matrix | Int4Matrix,
    *,
    alpha: Tensor | None = None,
    eps: float = 0.0,
    gated: bool = False,
    residual: Tensor | None = None,
) -> Tensor:
    """As `linear`, for any number of rows and any kind of weights.

    Plain weights of several rows: the library's matrix product, what stands around it in a launch each.
    """
    if isinstance(weight, Tensor) and x.shape[0] <= MOST_ROWS:
        return linear(x, weight, alpha=alpha, eps=eps, gated=gated, residual=residual)
    if alpha is not None:
        x = normed(x, alpha, eps)
    if isinstance(weight, Int8Matrix):
        return linear_int8(x, weight, gated=gated, residual=residual)
    if isinstance(weight, Int4Matrix):
        y = weight.times(x)
        y = y if residual is None else y + residual
    elif residual is not None:
        y = torch.addmm(residual, x, weight.T)
    else:
        y = x @ weight.T
    return gate(y) if gated else y
