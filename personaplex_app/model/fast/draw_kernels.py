"""Drawing tokens in a launch or two: the same draw as `sampling.draw`, with what comes before and after it.

In: logits, the rows' sampling parameters. Out: a token a row, and the next input of the depth transformer.
Must not know: transformers. Candidates are ordered by (logit, id), prefix sums are float64: as in `sampling.draw`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from personaplex_app.model.sampling import SamplingRows

TILE = 2048
NARROW_IDS = 2048
ID_BITS = 20
MOST_TILED_CANDIDATES = 32


@triton.jit
def _mix(x):
    x = x + 0x9E3779B9
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _uniform(seed, steps, stream):
    """`sampling.uniform_noise`, one number in [0, 1) as float64; 32-bit arithmetic that wraps."""
    bits = _mix((seed & 0xFFFFFFFF).to(tl.uint32)) ^ ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32)
    bits = _mix(bits) ^ (steps & 0xFFFFFFFF).to(tl.uint32)
    bits = _mix(_mix(bits) ^ (stream * tl.full([], 0x9E3779B1, tl.uint32)).to(tl.uint32))
    return (bits >> 8).to(tl.float32).to(tl.float64) * 5.9604644775390625e-08


@triton.jit
def _keys(logits, ids, inside):
    """int64 that sorts as (logit, id from the front) does; what is not inside comes last."""
    bits = logits.to(tl.int32, bitcast=True)
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)
    return tl.where(inside, (ordered << 20) + (0xFFFFF - ids), -0x7FFFFFFFFFFFFFFF)


@triton.jit
def _narrow_keys(logits, ids, inside):
    """int32 keys of bfloat16 logits and ids below 2048: half as wide to sort."""
    bits = logits.to(tl.bfloat16).to(tl.int16, bitcast=True).to(tl.int32)
    ordered = bits ^ ((bits >> 31) & 0x7FFF)
    return tl.where(inside, (ordered << 11) + (0x7FF - ids), -0x7FFFFFFF)


@triton.jit
def _widened(keys, first_id):
    """The same keys as `_keys` gives, for ids that count from `first_id`."""
    ordered = keys >> 11
    bits = (ordered ^ ((ordered >> 31) & 0x7FFF)) << 16
    wide = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)
    ids = first_id + 0x7FF - (keys & 0x7FF)
    return tl.where(keys == -0x7FFFFFFF, -0x7FFFFFFFFFFFFFFF, (wide << 20) + (0xFFFFF - ids))


@triton.jit
def _logit_of(keys):
    ordered = (keys >> 20).to(tl.int32)
    return (ordered ^ ((ordered >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _pick(keys, temperature, top_k, noise, widest, SIZE: tl.constexpr):
    """The drawn id among keys in falling order."""
    place = tl.arange(0, SIZE)
    best = tl.max(keys, 0)
    last = tl.minimum(tl.where(top_k > 0, top_k, widest), widest) - 1
    scale = tl.where(temperature > 0, temperature, 1.0)
    weights = tl.exp((_logit_of(keys) - _logit_of(best)) / scale).to(tl.float64)
    weights = tl.where(place <= last, weights, 0.0)
    sums = tl.cumsum(weights, 0)
    total = tl.sum(tl.where(place == last, sums, 0.0), 0)
    index = tl.sum(((sums <= noise * total) & (place <= last)).to(tl.int32), 0)
    index = tl.minimum(index, last.to(tl.int32))
    drawn = tl.sum(tl.where(place == index, keys, 0), 0)
    return 0xFFFFF - (tl.where(temperature > 0, drawn, best) & 0xFFFFF)


@triton.jit
def _draw_code(
    logits_ptr,
    temperature_ptr,
    top_k_ptr,
    seed_ptr,
    steps_ptr,
    codes_ptr,
    inputs_ptr,
    embedding_ptr,
    x_ptr,
    step,
    V,
    D,
    CODES: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    GREEDY: tl.constexpr,
    NARROW: tl.constexpr,
    HAS_NEXT: tl.constexpr,
):
    row = tl.program_id(0)
    ids = tl.arange(0, SIZE)
    logits = tl.load(logits_ptr + row * V + ids, mask=ids < V, other=0.0).to(tl.float32)
    if GREEDY:
        code = 0xFFFFF - (tl.max(_keys(logits, ids, ids < V), 0) & 0xFFFFF)
    else:
        if NARROW:
            keys = _widened(tl.sort(_narrow_keys(logits, ids, ids < V), descending=True), 0)
        else:
            keys = tl.sort(_keys(logits, ids, ids < V), descending=True)
        noise = _uniform(tl.load(seed_ptr + row), tl.load(steps_ptr + row), step + 1)
        code = _pick(keys, tl.load(temperature_ptr + row), tl.load(top_k_ptr + row), noise, V, SIZE)
    tl.store(codes_ptr + row * CODES + step, code)
    if HAS_NEXT:
        columns = tl.arange(0, WIDTH)
        within = columns < D
        embedded = tl.load(embedding_ptr + code * D + columns, mask=within, other=0.0).to(tl.float32)
        given = tl.load(inputs_ptr + (row * CODES + step + 1) * D + columns, mask=within, other=0.0).to(tl.float32)
        tl.store(x_ptr + row * D + columns, (given + embedded).to(x_ptr.dtype.element_ty), mask=within)


def draw_code(
    logits: Tensor, rows: SamplingRows, step: int, codes: Tensor, inputs: Tensor, embedding: Tensor | None, greedy: bool
) -> Tensor | None:
    """One codebook's draw for b rows, and the depth transformer's next input.

    Args:
        logits: [b, V]. codes: int64 [b, 8], written at `step`. inputs: [b, 8, D]. embedding: [V + 1, D] or None.
    Returns:
        [b, D], or None after the last codebook.
    """
    b, vocabulary = logits.shape
    width = inputs.shape[-1]
    x = torch.empty((b, width), dtype=inputs.dtype, device=inputs.device) if embedding is not None else None
    _draw_code[(b,)](
        logits,
        rows.audio_temperature,
        rows.audio_top_k,
        rows.seed,
        rows.steps,
        codes,
        inputs,
        embedding,
        x,
        step,
        vocabulary,
        width,
        CODES=codes.shape[1],
        SIZE=triton.next_power_of_2(vocabulary),
        WIDTH=triton.next_power_of_2(width),
        GREEDY=greedy,
        NARROW=logits.dtype == torch.bfloat16 and vocabulary <= NARROW_IDS,
        HAS_NEXT=embedding is not None,
        num_warps=8,
    )
    return x


@triton.jit
def _best_of_tile(
    logits_ptr,
    recent_ptr,
    window_ptr,
    penalty_ptr,
    best_ptr,
    V,
    TILES,
    W: tl.constexpr,
    KEPT: tl.constexpr,
    SIZE: tl.constexpr,
    PENALIZED: tl.constexpr,
    NARROW: tl.constexpr,
):
    row, tile = tl.program_id(0), tl.program_id(1)
    ids = tile * SIZE + tl.arange(0, SIZE)
    logits = tl.load(logits_ptr + row * V + ids, mask=ids < V, other=0.0).to(tl.float32)
    if PENALIZED:
        window = tl.load(window_ptr + row)
        penalty = tl.load(penalty_ptr + row)
        seen = ids < 0
        for index in range(W):
            recent = tl.load(recent_ptr + row * W + index)
            seen = seen | ((recent == ids) & (W - index <= window))
        logits = tl.where(seen, tl.where(logits > 0, logits / penalty, logits * penalty), logits)
    if NARROW:
        first = tile * SIZE
        keys = _widened(tl.sort(_narrow_keys(logits, ids - first, ids < V), descending=True), first)
    else:
        keys = tl.sort(_keys(logits, ids, ids < V), descending=True)
    place = tl.arange(0, SIZE)
    tl.store(best_ptr + (row * TILES + tile) * KEPT + place, keys, mask=place < KEPT)


@triton.jit
def _draw_text(
    best_ptr,
    temperature_ptr,
    top_k_ptr,
    seed_ptr,
    steps_ptr,
    text_ptr,
    inputs_ptr,
    embedding_ptr,
    x_ptr,
    D,
    COUNT,
    CODES: tl.constexpr,
    WIDEST: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0)
    place = tl.arange(0, SIZE)
    keys = tl.load(best_ptr + row * COUNT + place, mask=place < COUNT, other=-0x7FFFFFFFFFFFFFFF)
    keys = tl.sort(keys, descending=True)
    noise = _uniform(tl.load(seed_ptr + row), tl.load(steps_ptr + row), 0)
    text = _pick(keys, tl.load(temperature_ptr + row), tl.load(top_k_ptr + row), noise, WIDEST, SIZE)
    tl.store(text_ptr + row, text)
    columns = tl.arange(0, WIDTH)
    within = columns < D
    embedded = tl.load(embedding_ptr + text * D + columns, mask=within, other=0.0).to(tl.float32)
    given = tl.load(inputs_ptr + row * CODES * D + columns, mask=within, other=0.0).to(tl.float32)
    tl.store(x_ptr + row * D + columns, (given + embedded).to(x_ptr.dtype.element_ty), mask=within)


def draw_text(
    logits: Tensor, rows: SamplingRows, candidates: int, penalized: bool, inputs: Tensor, embedding: Tensor
) -> tuple[Tensor, Tensor]:
    """The text tokens of b rows, and the depth transformer's first input.

    Args:
        logits: [b, V]. candidates: how many the widest row may draw from, 32 at most. inputs: [b, 8, D].
        embedding: [V + 1, D].
    Returns:
        int64 [b], [b, D].
    """
    b, vocabulary = logits.shape
    tiles, kept = triton.cdiv(vocabulary, TILE), min(triton.next_power_of_2(candidates), TILE)
    best = torch.empty((b, tiles * kept), dtype=torch.int64, device=logits.device)
    _best_of_tile[(b, tiles)](
        logits,
        rows.recent,
        rows.window,
        rows.penalty,
        best,
        vocabulary,
        tiles,
        W=rows.recent.shape[1],
        KEPT=kept,
        SIZE=TILE,
        PENALIZED=penalized,
        NARROW=logits.dtype == torch.bfloat16 and not penalized,
        num_warps=8,
    )
    width = inputs.shape[-1]
    text = torch.empty(b, dtype=torch.int64, device=logits.device)
    x = torch.empty((b, width), dtype=inputs.dtype, device=logits.device)
    _draw_text[(b,)](
        best,
        rows.text_temperature,
        rows.text_top_k,
        rows.seed,
        rows.steps,
        text,
        inputs,
        embedding,
        x,
        width,
        tiles * kept,
        CODES=inputs.shape[1],
        WIDEST=min(candidates, vocabulary),
        SIZE=triton.next_power_of_2(tiles * kept),
        WIDTH=triton.next_power_of_2(width),
        num_warps=8,
    )
    return text, x
