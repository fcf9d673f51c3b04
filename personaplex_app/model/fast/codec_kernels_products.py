# mypy: disable-error-code="import-untyped, no-untyped-def"
"""The codec's two products: one for tiles of many positions, one that streams its weights past one to four positions.

In: columns and weights, float32. Out: columns, finished as `codec_kernels.finish` says.
Must not know: layers, models, slots.
"""

import triton
import triton.language as tl

from personaplex_app.model.fast.codec_kernels import LAYER_NORM_EPS, finish, windows


@triton.jit(do_not_specialize=["positions"])
def many_positions(
    x_ptr, weight_ptr, bias_ptr, residual_ptr, out_ptr, active_ptr, offset_ptr, partial_ptr, arrived_ptr,
    positions, steps, N, K, width, dilation, past, x_row, x_step, out_row, active_row,
    GELU: tl.constexpr, NORM: tl.constexpr, STRAIGHT: tl.constexpr, EVEN_K: tl.constexpr, EVEN_N: tl.constexpr,
    SPLITS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Tiles of positions by outputs; weights [K, N]. `SPLITS` programs share a tile's depth; the last one sums."""
    tile, split = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0), tl.program_id(2)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m < positions)[:, None] & (n < N)[None, :]
    m = tl.minimum(m, positions - 1)
    row = m // steps
    step = m - row * steps
    base, whose = (x_ptr + row * x_row + step * x_step)[:, None], row[:, None]
    k = tl.arange(0, BLOCK_K)[None, :]
    if NORM:
        summed = tl.zeros([BLOCK_M], tl.float32)
        for start in range(0, K, BLOCK_K):
            x = windows(base, whose, start + k, K, offset_ptr, width, dilation, past, STRAIGHT, EVEN_K)
            summed += tl.sum(x, 1)
        mean = (summed / K)[:, None]
        squares = tl.zeros([BLOCK_M], tl.float32)
        for start in range(0, K, BLOCK_K):
            x = windows(base, whose, start + k, K, offset_ptr, width, dilation, past, STRAIGHT, EVEN_K)
            x = tl.where(start + k < K, x - mean, 0.0)
            squares += tl.sum(x * x, 1)
        rate = tl.rsqrt(squares / K + LAYER_NORM_EPS)[:, None]

    share = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLITS) * BLOCK_K
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(split * share, tl.minimum(K, (split + 1) * share), BLOCK_K):
        x = windows(base, whose, start + k, K, offset_ptr, width, dilation, past, STRAIGHT, EVEN_K)
        if NORM:
            x = (x - mean) * rate
        down = start + tl.arange(0, BLOCK_K)[:, None]
        weights = weight_ptr + down * N + n[None, :]
        if EVEN_K and EVEN_N:
            weight = tl.load(weights)
        else:
            weight = tl.load(weights, mask=(down < K) & (n < N)[None, :], other=0.0)
        total = tl.dot(x, weight, total, input_precision="ieee")

    if SPLITS == 1:
        finish(
            total, m, row, step, n, inside, N, bias_ptr, residual_ptr, out_ptr, active_ptr, out_row, active_row, GELU
        )
    else:
        place = tl.arange(0, BLOCK_M)[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        parts = partial_ptr + tile * (SPLITS * BLOCK_M * BLOCK_N) + place
        tl.store(parts + split * (BLOCK_M * BLOCK_N), total)
        tl.debug_barrier()
        if tl.atomic_add(arrived_ptr + tile, 1, sem="acq_rel") == SPLITS - 1:
            tl.debug_barrier()
            # In the order of the splits, whoever arrives last: the sum is the same every time.
            total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
            for part in tl.static_range(SPLITS):
                total += tl.load(parts + part * (BLOCK_M * BLOCK_N), cache_modifier=".cg")
            tl.store(arrived_ptr + tile, 0)
            finish(
                total, m, row, step, n, inside, N, bias_ptr, residual_ptr, out_ptr, active_ptr, out_row, active_row,
                GELU,
            )  # fmt: skip


@triton.jit
def _share(
    m, x_ptr, weight, k, K, positions, offset_ptr, width, dilation, past, x_row, x_step,
    NORM: tl.constexpr, STRAIGHT: tl.constexpr, EVEN_K: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Position m's products with one tile of weights, [outputs, k]."""
    m = tl.minimum(m, positions - 1)
    row = m // STEPS
    base = x_ptr + row * x_row + (m - row * STEPS) * x_step
    x = windows(base, row, k, K, offset_ptr, width, dilation, past, STRAIGHT, EVEN_K)
    if NORM:
        x = tl.where(k < K, x - tl.sum(x, 0) / K, 0.0)
        x = x * tl.rsqrt(tl.sum(x * x, 0) / K + LAYER_NORM_EPS)
    return weight * x[None, :]


@triton.jit(do_not_specialize=["positions"])
def few_positions(
    x_ptr, weight_ptr, bias_ptr, residual_ptr, out_ptr, active_ptr, offset_ptr,
    positions, N, K, width, dilation, past, x_row, x_step, out_row, active_row,
    GELU: tl.constexpr, NORM: tl.constexpr, STRAIGHT: tl.constexpr, EVEN_K: tl.constexpr, EVEN_N: tl.constexpr,
    STEPS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """BLOCK_M (1, 2 or 4) positions; weights [N, K]. With `NORM`, BLOCK_K covers all of K."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    # A sum a position, by name: as one tensor they would pass through shared memory on every turn.
    total_0 = tl.zeros([BLOCK_N, BLOCK_K], tl.float32)
    total_1, total_2, total_3 = total_0, total_0, total_0
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        weights = weight_ptr + n[:, None] * K + k[None, :]
        if EVEN_K and EVEN_N:
            weight = tl.load(weights)
        else:
            weight = tl.load(weights, mask=(n < N)[:, None] & (k < K)[None, :], other=0.0)
        total_0 += _share(
            0, x_ptr, weight, k, K, positions, offset_ptr, width, dilation, past, x_row, x_step,
            NORM, STRAIGHT, EVEN_K, STEPS,
        )  # fmt: skip
        if BLOCK_M > 1:
            total_1 += _share(
                1, x_ptr, weight, k, K, positions, offset_ptr, width, dilation, past, x_row, x_step,
                NORM, STRAIGHT, EVEN_K, STEPS,
            )  # fmt: skip
        if BLOCK_M > 2:
            total_2 += _share(
                2, x_ptr, weight, k, K, positions, offset_ptr, width, dilation, past, x_row, x_step,
                NORM, STRAIGHT, EVEN_K, STEPS,
            )  # fmt: skip
            total_3 += _share(
                3, x_ptr, weight, k, K, positions, offset_ptr, width, dilation, past, x_row, x_step,
                NORM, STRAIGHT, EVEN_K, STEPS,
            )  # fmt: skip

    place = tl.arange(0, BLOCK_M)
    y = tl.sum(total_0, 1)[None, :]
    if BLOCK_M > 1:
        y = tl.where((place == 1)[:, None], tl.sum(total_1, 1)[None, :], y)
    if BLOCK_M > 2:
        y = tl.where((place == 2)[:, None], tl.sum(total_2, 1)[None, :], y)
        y = tl.where((place == 3)[:, None], tl.sum(total_3, 1)[None, :], y)
    inside = (place < positions)[:, None] & (n < N)[None, :]
    m = tl.minimum(place, positions - 1)
    row = m // STEPS
    step = m - row * STEPS
    finish(y, m, row, step, n, inside, N, bias_ptr, residual_ptr, out_ptr, active_ptr, out_row, active_row, GELU)
