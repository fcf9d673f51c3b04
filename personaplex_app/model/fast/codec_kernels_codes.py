# mypy: disable-error-code="import-untyped, no-untyped-def"
"""Codes of the split residual quantizer: the nearest entry of one codebook after another, and back by look-ups.

In: projected latents [b, 2, D], one for each of the quantizer's two halves, or codes. Out: codes, or columns.
Must not know: layers, slots. Ties go to the entry that comes first, as in the reference.
"""

import triton
import triton.language as tl


@triton.jit
def _nearest(value_ptr, entry_ptr, at, blocks, BLOCKS: tl.constexpr):
    """The entry that the blocks' programs have found nearest."""
    block = tl.arange(0, BLOCKS)
    values = tl.load(value_ptr + at * blocks + block, mask=block < blocks, other=float("inf"))
    entries = tl.load(entry_ptr + at * blocks + block, mask=block < blocks, other=0)
    return tl.sum(tl.where(block == tl.argmin(values, 0), entries, 0), 0)


@triton.jit(do_not_specialize=["rows", "level"])
def search_codebook(
    before_ptr, after_ptr, books_ptr, found_value_ptr, found_entry_ptr, value_ptr, entry_ptr, codes_ptr,
    rows, bins, level, semantic, first_half, codebooks,
    D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """One level of one half: (block of entries, block of rows, half).

    Beyond level 0 it first takes off what the level before has found, which the first block's program also notes down.
    """
    block, half = tl.program_id(0), first_half + tl.program_id(2)
    blocks = tl.num_programs(0)
    book = half * semantic + level
    d = tl.arange(0, BLOCK_D)
    n = block * BLOCK_N + tl.arange(0, BLOCK_N)
    entries = books_ptr + (book * bins + n)[:, None] * D + d[None, :]
    entry = tl.load(entries, mask=(n < bins)[:, None] & (d < D)[None, :], other=0.0)
    for index in range(ROWS):
        row = tl.program_id(1) * ROWS + index
        if row < rows:
            at = row * 2 + half
            rest = tl.load(before_ptr + at * D + d, mask=d < D, other=0.0)
            if after_ptr is not None:
                code = _nearest(found_value_ptr, found_entry_ptr, at, blocks, BLOCKS)
                rest -= tl.load(books_ptr + ((book - 1) * bins + code) * D + d, mask=d < D, other=0.0)
                if block == 0:
                    tl.store(after_ptr + at * D + d, rest, mask=d < D)
                    tl.store(codes_ptr + row * codebooks + book - 1, code.to(tl.int64))
            gap = entry - rest[None, :]
            distance = tl.where(n < bins, tl.sum(gap * gap, 1), float("inf"))
            nearest, where = tl.min(distance, 0, return_indices=True)
            tl.store(value_ptr + at * blocks + block, nearest)
            tl.store(entry_ptr + at * blocks + block, block * BLOCK_N + where)


@triton.jit
def last_codes(
    even_value_ptr,
    even_entry_ptr,
    odd_value_ptr,
    odd_entry_ptr,
    codes_ptr,
    blocks,
    semantic,
    codebooks,
    BLOCKS: tl.constexpr,
):
    """The last level's code of both halves: (row, half). Levels lie in two scratches by turns."""
    row, half = tl.program_id(0), tl.program_id(1)
    at = row * 2 + half
    last = tl.where(half == 0, semantic, codebooks) - 1
    if (last - half * semantic) % 2 == 0:
        code = _nearest(even_value_ptr, even_entry_ptr, at, blocks, BLOCKS)
    else:
        code = _nearest(odd_value_ptr, odd_entry_ptr, at, blocks, BLOCKS)
    tl.store(codes_ptr + row * codebooks + last, code.to(tl.int64))


@triton.jit
def look_up(
    codes_ptr, books_ptr, spread_ptr, latent_ptr, out_ptr, bins, C, latent_row, out_row,
    CODEBOOKS: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Codes [b, codebooks] to a latent, the sum of projected entries, and on to STRIDE columns: (row, block).

    The latent before lies in front of the new one; each channel is spread over time by its own weights.
    """
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    latent = tl.zeros([BLOCK], tl.float32)
    for book in tl.static_range(CODEBOOKS):
        code = tl.load(codes_ptr + row * CODEBOOKS + book)
        latent += tl.load(books_ptr + (book * bins + code) * C + c, mask=c < C, other=0.0)
    before = tl.load(latent_ptr + row * latent_row + c, mask=c < C, other=0.0)
    tl.store(latent_ptr + row * latent_row + C + c, latent, mask=c < C)
    for step in tl.static_range(STRIDE):
        new = tl.load(spread_ptr + step * C + c, mask=c < C, other=0.0)
        old = tl.load(spread_ptr + (STRIDE + step) * C + c, mask=c < C, other=0.0)
        tl.store(out_ptr + row * out_row + step * C + c, latent * new + before * old, mask=c < C)
