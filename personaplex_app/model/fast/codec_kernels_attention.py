# mypy: disable-error-code="import-untyped, no-untyped-def"
"""Attention of the codec's transformers over a ring of keys and values, one launch a layer: rotates, reads, writes.

In: projections [b, T, 3, H, D] of a frame's T positions, a layer's rings, where each row stands. Out: [b, T, H * D].
Must not know: layers, slots. Reads only what has been written, and writes only for live rows.
"""

import triton
import triton.language as tl


@triton.jit
def _rotated(base, d, cos, sin, inside):
    """A head's vector with its pairs (even, odd) turned; sin carries the sign of the place."""
    x = tl.load(base + d, mask=inside, other=0.0)
    return x * cos + tl.load(base + (d ^ 1), mask=inside, other=0.0) * sin


@triton.jit
def ring_attention(
    projected_ptr, ring_ptr, offset_ptr, live_ptr, rate_ptr, out_ptr, heads, capacity, ring_row, scale,
    STEPS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One query a program: (its row and position, head).

    As in the reference, all T new positions take their places before any query reads: what they overwrite is gone.
    """
    row, step, head = tl.program_id(0) // STEPS, tl.program_id(0) % STEPS, tl.program_id(1)
    d = tl.arange(0, BLOCK_D)
    inside = d < D
    sign = tl.where(d % 2 == 0, -1.0, 1.0)
    rate = tl.load(rate_ptr + d // 2, mask=inside, other=0.0)
    offset = tl.load(offset_ptr + row)
    place = (offset % capacity).to(tl.int32)
    new = projected_ptr + row * (STEPS * 3 * heads * D) + head * D
    angle = (offset + step).to(tl.float32) * rate
    query = _rotated(new + step * (3 * heads * D), d, tl.cos(angle), tl.sin(angle) * sign, inside) * scale
    keys = ring_ptr + row * ring_row + head * capacity * D
    values = keys + heads * capacity * D
    live = tl.load(live_ptr + row)

    top = tl.full([1], float("-inf"), tl.float32)
    weight_sum = tl.zeros([1], tl.float32)
    mixed = tl.zeros([BLOCK_D], tl.float32)
    for other in tl.static_range(STEPS):
        angle = (offset + other).to(tl.float32) * rate
        base = new + other * (3 * heads * D)
        key = _rotated(base + heads * D, d, tl.cos(angle), tl.sin(angle) * sign, inside)
        value = tl.load(base + 2 * heads * D + d, mask=inside, other=0.0)
        score = tl.where(other <= step, tl.sum(query * key, 0, keep_dims=True), float("-inf"))
        higher = tl.maximum(top, score)
        shrink, weight = tl.exp(top - higher), tl.exp(score - higher)
        weight_sum = weight_sum * shrink + weight
        mixed = mixed * shrink + value * weight
        top = higher
        mine = (place + other) % capacity * D + d
        tl.store(keys + mine, key, mask=inside & live & (other == step))
        tl.store(values + mine, value, mask=inside & live & (other == step))

    written = tl.minimum(offset, capacity).to(tl.int32)
    for start in range(0, written, BLOCK):
        index = start + tl.arange(0, BLOCK)
        kept = (index < written) & ((index - place + capacity) % capacity >= STEPS)
        at = index[:, None] * D + d[None, :]
        readable = kept[:, None] & inside[None, :]
        old = tl.load(keys + at, mask=readable, other=0.0)
        old_values = tl.load(values + at, mask=readable, other=0.0)
        scores = tl.where(kept, tl.sum(old * query[None, :], 1), float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 0, keep_dims=True))
        shrink, weights = tl.exp(top - higher), tl.exp(scores - higher)
        weight_sum = weight_sum * shrink + tl.sum(weights, 0, keep_dims=True)
        mixed = mixed * shrink + tl.sum(old_values * weights[:, None], 0)
        top = higher
    out = out_ptr + (row * STEPS + step) * (heads * D) + head * D
    tl.store(out + d, mixed / weight_sum, mask=inside)
