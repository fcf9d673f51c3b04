# mypy: disable-error-code="import-untyped, no-untyped-def"
"""What the codec's kernels share: the windows that a product reads, and what follows a product.

In: columns, float32 [b, time, channels], channels last, with the past columns in front. Out: columns.
Must not know: layers, models, slots.

Convolutions, transposed convolutions and linear layers are one product here. An output position reads `K` numbers that
begin at its own column: with channels last a convolution's window lies in one piece. A transposed convolution reads a
few columns and writes `stride` columns at once, which lie in one piece too. The arithmetic is float32.
"""

import triton
import triton.language as tl

LAYER_NORM_EPS: tl.constexpr = tl.constexpr(1e-5)


@triton.jit
def elu(x):
    """ELU. Near zero exp(x) - 1 would lose what is small; there a series is exact to float32."""
    tail = 1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x * (1.0 / 5040)))
    series = x * (1.0 + x * (0.5 + x * (1.0 / 6 + x * tail)))
    return tl.where(x > 0, x, tl.where(x > -0.3, series, tl.exp(x) - 1.0))


@triton.jit
def windows(base, row, k, K, offset_ptr, width, dilation, past, STRAIGHT: tl.constexpr, EVEN_K: tl.constexpr):
    """The numbers k of the windows that begin at base.

    Where offsets are given, a row that has heard nothing yet finds its first new column in place of the past ones.
    """
    if STRAIGHT:
        at = base + k
    else:
        tap = k // width
        if offset_ptr is not None:
            tap = tl.where((tl.load(offset_ptr + row) == 0) & (tap < past), past, tap)
        at = base + tap * (dilation * width) + k % width
    if EVEN_K:
        return tl.load(at)
    return tl.load(at, mask=k < K, other=0.0)


@triton.jit
def finish(
    y, m, row, step, n, inside, N, bias_ptr, residual_ptr, out_ptr, active_ptr, out_row, active_row, GELU: tl.constexpr
):
    """What follows a product [positions, outputs]: bias, GELU, residual; stored as it is, or after ELU, or both."""
    columns = n[None, :]
    if bias_ptr is not None:
        y += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)
    if GELU:
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    if residual_ptr is not None:
        y += tl.load(residual_ptr + m[:, None] * N + columns, mask=inside, other=0.0)
    if out_ptr is not None:
        tl.store(out_ptr + (row * out_row + step * N)[:, None] + columns, y, mask=inside)
    if active_ptr is not None:
        tl.store(active_ptr + (row * active_row + step * N)[:, None] + columns, elu(y), mask=inside)
