"""Attention of one new position over a past that lies in blocks, one launch a layer: rotates, writes, reads, joins.

In: projections [b, 3, H, E] of one layer, a table of block addresses, where each row stands. Out: [b, H * E]; the new
key and value stand in their blocks. Each row reads the positions that it has used, no more.
Must not know: who owns a block, which model.

A block holds P positions of all layers: keys and values [L, 2, H, P, E], and behind them, where they are 8 bits wide,
float32 scales [L, 2, H, P]. Keys are stored with the even places of a head first: rotation then needs no pairs, and a
dot product is the same in any order.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TARGET_PROGRAMS = 1024
MOST_SPLITS = 16  # joining more parts takes longer than reading them apart saves
TILE_POSITIONS = 32
STAGES = 3  # tiles on their way at a time: the fastest of those tried on an H200
INTERPRETED = triton.knobs.runtime.interpret
LOG2_E = 1.4426950408889634


@triton.jit
def _exact(numbers, IN_BYTES: tl.constexpr):
    """Floats of a tile as stored.

    8-bit numbers go four at a time into the low mantissa bits of 2^23 and lose 2^23 again: the unit that converts
    integers would be what the kernel waits for.
    """
    if IN_BYTES:
        return tl.inline_asm_elementwise(
            """
            {
            .reg .b32 biased, a, b, c, d;
            .reg .f32 e, f, g, h;
            xor.b32 biased, $4, 0x80808080;
            prmt.b32 a, biased, 0x4B000000, 0x7440;
            prmt.b32 b, biased, 0x4B000000, 0x7441;
            prmt.b32 c, biased, 0x4B000000, 0x7442;
            prmt.b32 d, biased, 0x4B000000, 0x7443;
            mov.b32 e, a; mov.b32 f, b; mov.b32 g, c; mov.b32 h, d;
            sub.f32 $0, e, 0f4B000080;
            sub.f32 $1, f, 0f4B000080;
            sub.f32 $2, g, 0f4B000080;
            sub.f32 $3, h, 0f4B000080;
            }
            """,
            "=f,=f,=f,=f,r",
            args=[numbers],
            dtype=tl.float32,
            is_pure=True,
            pack=4,
        )
    else:
        return numbers.to(tl.float32)


@triton.jit
def _attend(
    projected_ptr,
    table_ptr,
    position_ptr,
    live_ptr,
    cos_ptr,
    sin_ptr,
    partial_ptr,
    arrived_ptr,
    out_ptr,
    layer,
    table_stride,
    context,
    scale_offset,
    softmax_scale,
    H: tl.constexpr,
    E: tl.constexpr,
    P: tl.constexpr,
    T: tl.constexpr,
    SPLITS: tl.constexpr,
    EIGHT_BIT: tl.constexpr,
    IN_BYTES: tl.constexpr,
    CACHE: tl.constexpr,
    STAGES: tl.constexpr,
):
    row, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place_in_head = tl.arange(0, E)
    pair, odd = place_in_head % (E // 2), place_in_head // (E // 2)
    position = tl.load(position_ptr + row)
    place = (position % context).to(tl.int32)
    length = tl.minimum(position + 1, context).to(tl.int32)

    base = projected_ptr + row * (3 * H * E) + head * E
    cos = tl.load(cos_ptr + row * (E // 2) + pair)
    sin = tl.load(sin_ptr + row * (E // 2) + pair) * (2 * odd - 1)
    same, other = 2 * pair + odd, 2 * pair + 1 - odd
    query = tl.load(base + same).to(tl.float32) * cos + tl.load(base + other).to(tl.float32) * sin
    query = query * softmax_scale

    head_at = (layer * 2 * H + head).to(tl.int64) * (P * E)
    scale_at = scale_offset + (layer * 2 * H + head).to(tl.int64) * P
    value_at = H * P * E
    table = table_ptr + row * table_stride

    # Each of T lanes is a softmax of its own over every T-th position: nothing is joined before the end.
    lane = tl.arange(0, T)
    top = tl.full([T], float("-inf"), tl.float32)
    weight_sum = tl.zeros([T], tl.float32)
    mixed = tl.zeros([T, E], tl.float32)
    if split == 0:
        key = tl.load(base + H * E + same).to(tl.float32) * cos + tl.load(base + H * E + other).to(tl.float32) * sin
        value = tl.load(base + 2 * H * E + place_in_head).to(tl.float32)
        live = tl.load(live_ptr + row) != 0
        address = tl.multiple_of(tl.load(table + place // P, mask=live, other=0), 16)
        block = address.to(tl.pointer_type(CACHE)) + head_at + (place % P) * E + place_in_head
        if EIGHT_BIT:
            key_scale = tl.maximum(tl.max(tl.abs(key)), 1e-20) / 127.0
            value_scale = tl.maximum(tl.max(tl.abs(value)), 1e-20) / 127.0
            key_stored = tl.floor(key / key_scale + 0.5)
            value_stored = tl.floor(value / value_scale + 0.5)
            scales = (address + scale_at * 4).to(tl.pointer_type(tl.float32)) + place % P
            tl.store(scales, key_scale, mask=live)
            tl.store(scales + H * P, value_scale, mask=live)
            tl.store(block, key_stored.to(CACHE), mask=live)
            tl.store(block + value_at, value_stored.to(CACHE), mask=live)
            key, value = key_stored * key_scale, value_stored * value_scale
        else:
            tl.store(block, key.to(CACHE), mask=live)
            tl.store(block + value_at, value.to(CACHE), mask=live)
            key, value = key.to(CACHE).to(tl.float32), value.to(CACHE).to(tl.float32)
        first = lane == 0
        top = tl.where(first, tl.sum(query * key, 0), top)
        weight_sum = tl.where(first, 1.0, weight_sum)
        mixed = tl.where(first[:, None], value[None, :], mixed)

    tiles = tl.cdiv(length, T)
    share = tl.cdiv(tiles, SPLITS)
    begin = split * share
    end = tl.minimum(begin + share, tiles)
    tile = lane[:, None] * E + place_in_head[None, :]
    for index in tl.range(begin, end, num_stages=STAGES):
        # Without the promise of alignment every element would be loaded by itself.
        address = tl.multiple_of(tl.load(table + index * T // P), 16)
        at = index * T + lane
        readable = (at < length) & (at != place)
        block = tl.multiple_of(address.to(tl.pointer_type(CACHE)), 16)
        keys_at = block + (head_at + (index * T % P) * E) + tile
        keys = tl.load(keys_at, mask=readable[:, None], other=0.0)
        values = tl.load(keys_at + value_at, mask=readable[:, None], other=0.0)
        scores = tl.sum(_exact(keys, IN_BYTES) * query[None, :], 1)
        if EIGHT_BIT:
            scales = (address + scale_at * 4).to(tl.pointer_type(tl.float32)) + index * T % P + lane
            scores = scores * tl.load(scales, mask=readable, other=0.0)
        scores = tl.where(readable, scores, float("-inf"))
        higher = tl.maximum(top, scores)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        shrink = tl.exp2(top - safe)
        weights = tl.exp2(scores - safe)
        weight_sum = weight_sum * shrink + weights
        if EIGHT_BIT:
            weights = weights * tl.load(scales + H * P, mask=readable, other=0.0)
        mixed = mixed * shrink[:, None] + _exact(values, IN_BYTES) * weights[:, None]
        top = higher

    highest = tl.max(top, 0)
    rate = tl.exp2(top - tl.where(highest == float("-inf"), 0.0, highest))
    total = tl.sum(weight_sum * rate, 0)
    joined = tl.sum(mixed * rate[:, None], 0)
    out_at = out_ptr + row * (H * E) + head * E + place_in_head
    if SPLITS == 1:
        tl.store(out_at, (joined / total).to(out_ptr.dtype.element_ty))
    else:
        one = row * H + head
        mine = partial_ptr + (one * SPLITS + split) * (E + 2)
        tl.store(mine + place_in_head, joined)
        tl.store(mine + E, highest)
        tl.store(mine + E + 1, total)
        tl.debug_barrier()
        if tl.atomic_add(arrived_ptr + one, 1, sem="acq_rel") == SPLITS - 1:
            # The last one to arrive joins what all have left.
            tl.debug_barrier()
            each = tl.arange(0, SPLITS)
            parts = partial_ptr + (one * SPLITS + each) * (E + 2)
            tops = tl.load(parts + E, volatile=True)
            sums = tl.load(parts + E + 1, volatile=True)
            rates = tl.exp2(tops - tl.max(tops, 0))
            pieces = tl.load(parts[:, None] + place_in_head[None, :], volatile=True)
            whole = tl.sum(pieces * rates[:, None], 0) / tl.sum(sums * rates, 0)
            tl.store(out_at, whole.to(out_ptr.dtype.element_ty))
            tl.store(arrived_ptr + one, 0)


class AttentionRoom:
    """Scratch memory that attention of up to B rows needs, zeroed once."""

    def __init__(self, rows: int, heads: int, head_dim: int, device: torch.device) -> None:
        self.partial = torch.empty(rows * heads * MOST_SPLITS * (head_dim + 2), dtype=torch.float32, device=device)
        self.arrived = torch.zeros(rows * heads, dtype=torch.int32, device=device)


def attend(
    projected: Tensor,
    table: Tensor,
    positions: Tensor,
    live: Tensor,
    cos: Tensor,
    sin: Tensor,
    room: AttentionRoom,
    *,
    layer: int,
    layers: int,
    context: int,
    block_positions: int,
    cache: torch.dtype,
) -> Tensor:
    """One layer's attention for b rows.

    Args:
        projected: [b, 3, H, E] contiguous. table: int64 [B, blocks] addresses. positions: int64 [B]. live: bool [B].
        cos, sin: float32 [B, E / 2]. cache: the blocks' element type; int8 brings scales.
    Returns:
        [b, H * E] in projected's type.
    """
    b, _, heads, width = projected.shape
    out = torch.empty((b, heads * width), dtype=projected.dtype, device=projected.device)
    splits = max(1, min(MOST_SPLITS, triton.next_power_of_2(TARGET_PROGRAMS // (b * heads) or 1)))
    _attend[(b, heads, splits)](
        projected,
        table,
        positions,
        live,
        cos,
        sin,
        room.partial,
        room.arrived,
        out,
        layer,
        table.stride(0),
        context,
        layers * 2 * heads * block_positions * width // 4,
        LOG2_E / width**0.5,
        H=heads,
        E=width,
        P=block_positions,
        T=min(TILE_POSITIONS, block_positions),
        SPLITS=splits,
        EIGHT_BIT=cache == torch.int8,
        IN_BYTES=cache == torch.int8 and not INTERPRETED,
        CACHE=_TYPES[cache],
        STAGES=STAGES,
        num_warps=4,
    )
    return out


_TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.int8: tl.int8}


@triton.jit
def _rotate(
    projected_ptr, cos_ptr, sin_ptr, query_ptr, past_ptr, first, count, head_stride, half_stride,
    H: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    at, head = tl.program_id(0), tl.program_id(1)
    place = tl.arange(0, E)
    pair, odd = place // 2, place % 2
    partner = place + 1 - 2 * odd
    cos = tl.load(cos_ptr + at * (E // 2) + pair)
    sin = tl.load(sin_ptr + at * (E // 2) + pair) * (2 * odd - 1)
    base = projected_ptr + at * (3 * H * E) + head * E
    query = tl.load(base + place).to(tl.float32) * cos + tl.load(base + partner).to(tl.float32) * sin
    tl.store(query_ptr + (head * count + at) * E + place, query.to(query_ptr.dtype.element_ty))
    base += H * E
    key = tl.load(base + place).to(tl.float32) * cos + tl.load(base + partner).to(tl.float32) * sin
    past = past_ptr + head * head_stride + (first + at) * E + place
    tl.store(past, key.to(past_ptr.dtype.element_ty))
    tl.store(past + half_stride, tl.load(base + H * E + place).to(past_ptr.dtype.element_ty))


def rotate_and_store(projected: Tensor, cos: Tensor, sin: Tensor, past: Tensor, first: int) -> Tensor:
    """Keys and values of T positions into one layer's past as the model has it, and the rotated queries.

    Args:
        projected: [T, 3, H, E] contiguous. cos, sin: float32 [T, E / 2]. past: [2, H, room, E], written from `first`.
    Returns:
        [H, T, E].
    """
    count, _, heads, width = projected.shape
    query = torch.empty((heads, count, width), dtype=projected.dtype, device=projected.device)
    strides = past.stride(1), past.stride(0)
    _rotate[(count, heads)](projected, cos, sin, query, past, first, count, *strides, H=heads, E=width, num_warps=1)
    return query
