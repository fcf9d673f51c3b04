# mypy: disable-error-code="import-untyped, no-untyped-def"
"""The codec's edges: the last convolution to one channel of sound, and the end of a frame, when the past moves on.

In: columns. Out: samples; the columns that the next frame will find in front of its own.
Must not know: layers, models.
"""

import triton
import triton.language as tl


@triton.jit
def to_samples(
    x_ptr, weight_ptr, bias_ptr, out_ptr, steps, K, x_row, x_step, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):
    """A convolution with one output channel: (block of positions, row)."""
    row = tl.program_id(1)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.arange(0, BLOCK_K)
    inside = (m < steps)[:, None] & (k < K)[None, :]
    x = tl.load(x_ptr + row * x_row + m[:, None] * x_step + k[None, :], mask=inside, other=0.0)
    weight = tl.load(weight_ptr + k, mask=k < K, other=0.0)
    y = tl.sum(x * weight[None, :], 1)
    if bias_ptr is not None:
        y += tl.load(bias_ptr)
    tl.store(out_ptr + row * steps + m, y, mask=m < steps)


@triton.jit
def move_on(
    arena_ptr, table_ptr, offset_ptr, live_ptr, steps, ITEM: tl.constexpr, PAST: tl.constexpr, BLOCK: tl.constexpr
):
    """The last columns of each live row become its past: (item, row). An item is a block of a track's channels."""
    item, row = table_ptr + tl.program_id(0) * ITEM, tl.program_id(1)
    if tl.load(live_ptr + row):
        start, row_size, width = tl.load(item), tl.load(item + 1), tl.load(item + 2)
        past, shift, first = tl.load(item + 3), tl.load(item + 4), tl.load(item + 5)
        column = tl.arange(0, PAST)[:, None]
        channel = first + tl.arange(0, BLOCK)[None, :]
        inside = (column < past) & (channel < width)
        at = arena_ptr + start + row * row_size + column * width + channel
        moved = tl.load(at + shift, mask=inside)
        # Where a frame is shorter than the past, both overlap: read all before anything is written.
        tl.debug_barrier()
        tl.store(at, moved, mask=inside)
        if tl.program_id(0) == 0:
            tl.store(offset_ptr + row, tl.load(offset_ptr + row) + steps)
