"""What stands around the transformers in a step: the columns' embeddings before, the rows' bookkeeping after.

In: the state's tensors. Out: embeddings and rotations; the state advanced for rows that are live.
Must not know: weights of layers, drawing.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from personaplex_app.model.config import STREAMS, TEXT_END_OF_PADDING, TEXT_PADDING, USER
from personaplex_app.model.sampling import TURN_END_FRAMES, SamplingRows

CODES = 8


@triton.jit
def _embed(
    column_ptr,
    user_ptr,
    live_ptr,
    position_ptr,
    frequency_ptr,
    text_ptr,
    audio_ptr,
    fed_ptr,
    x_ptr,
    cos_ptr,
    sin_ptr,
    D,
    CARD,
    HALF,
    K: tl.constexpr,
    OPEN: tl.constexpr,
    CODES: tl.constexpr,
    BLOCK: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
):
    row, piece = tl.program_id(0), tl.program_id(1)
    columns = piece * BLOCK + tl.arange(0, BLOCK)
    within = columns < D
    token = tl.load(column_ptr + row * K)
    if piece == 0:
        tl.store(fed_ptr + row * K, token)
    x = tl.load(text_ptr + token * D + columns, mask=within, other=0.0).to(tl.float32)
    audio = tl.zeros([BLOCK], tl.float32)
    live = tl.load(live_ptr + row) != 0
    for stream in tl.static_range(1, K):
        token = tl.load(column_ptr + row * K + stream)
        if stream == OPEN:  # the frame that the user just said
            token = tl.where(live, tl.load(user_ptr + row * CODES), token)
        if piece == 0:
            tl.store(fed_ptr + row * K + stream, token)
        at = ((stream - 1) * CARD + token) * D + columns
        audio += tl.load(audio_ptr + at, mask=within, other=0.0).to(tl.float32)
    tl.store(x_ptr + row * D + columns, (x + audio).to(x_ptr.dtype.element_ty), mask=within)
    if piece == 0:
        pair = tl.arange(0, HALF_BLOCK)
        angle = tl.load(position_ptr + row).to(tl.float32) * tl.load(frequency_ptr + pair, mask=pair < HALF, other=0.0)
        tl.store(cos_ptr + row * HALF + pair, tl.cos(angle), mask=pair < HALF)
        tl.store(sin_ptr + row * HALF + pair, tl.sin(angle), mask=pair < HALF)


def embed(
    column: Tensor,
    user_codes: Tensor,
    live: Tensor,
    positions: Tensor,
    frequencies: Tensor,
    text: Tensor,
    audio: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The columns that b rows feed, their embeddings, and their positions' rotations.

    Args:
        column: int64 [b, 17]. user_codes: int64 [b, 8], the first of them goes in where a row is live. live: bool [b].
        positions: int64 [b]. frequencies: float32 [E / 2]. text: [V + 1, D]. audio: [16 * (V + 1), D].
    Returns:
        fed int64 [b, 17], x [b, D], cos and sin float32 [b, E / 2].
    """
    b, width, half = len(user_codes), text.shape[1], len(frequencies)
    fed = torch.empty((b, STREAMS), dtype=torch.int64, device=text.device)
    x = torch.empty((b, width), dtype=text.dtype, device=text.device)
    cos = torch.empty((b, half), dtype=torch.float32, device=text.device)
    sin = torch.empty_like(cos)
    block = min(512, triton.next_power_of_2(width))
    _embed[(b, triton.cdiv(width, block))](
        column,
        user_codes,
        live,
        positions,
        frequencies,
        text,
        audio,
        fed,
        x,
        cos,
        sin,
        width,
        audio.shape[0] // (STREAMS - 1),
        half,
        K=STREAMS,
        OPEN=USER.start,
        CODES=user_codes.shape[1],
        BLOCK=block,
        HALF_BLOCK=triton.next_power_of_2(half),
        num_warps=4,
    )
    return fed, x, cos, sin


@triton.jit
def _finish(
    text_ptr,
    codes_ptr,
    fed_ptr,
    user_ptr,
    live_ptr,
    column_ptr,
    position_ptr,
    steps_ptr,
    recent_ptr,
    run_ptr,
    heard_ptr,
    K: tl.constexpr,
    CODES: tl.constexpr,
    OPEN: tl.constexpr,
    W: tl.constexpr,
    PADDING: tl.constexpr,
    END_OF_PADDING: tl.constexpr,
    TURN_END: tl.constexpr,
):
    row = tl.program_id(0)
    live = tl.load(live_ptr + row) != 0
    text = tl.load(text_ptr + row)
    code = tl.arange(0, CODES)
    codes = tl.load(codes_ptr + row * CODES + code)
    # The audible frame: its first code stood in the column already, the others were drawn now.
    first = tl.load(fed_ptr + row * K + 1)
    tl.store(heard_ptr + row * CODES + code, tl.where(code == 0, first, codes))
    window = tl.arange(0, W)
    recent = tl.load(recent_ptr + row * W + window)
    shifted = tl.load(recent_ptr + row * W + window + 1, mask=window < W - 1, other=0)
    shifted = tl.where(window == W - 1, text, shifted)
    tl.debug_barrier()  # all is read before anything of the row is written
    if live:
        column = column_ptr + row * K
        tl.store(column, text)
        tl.store(column + 1 + code, codes)
        user = tl.load(user_ptr + row * CODES + code)
        tl.store(column + OPEN + code, tl.where(code == 0, tl.load(fed_ptr + row * K + OPEN), user))
        spoken = (text != PADDING) & (text != END_OF_PADDING)
        run = tl.where(spoken, 0, tl.load(run_ptr + row) + 1)
        tl.store(run_ptr + row, run)
        kept = tl.where(spoken, shifted, recent)
        tl.store(recent_ptr + row * W + window, tl.where(run >= TURN_END, -1, kept))
        tl.store(position_ptr + row, tl.load(position_ptr + row) + 1)
        tl.store(steps_ptr + row, tl.load(steps_ptr + row) + 1)


def finish(
    text: Tensor,
    codes: Tensor,
    fed: Tensor,
    user_codes: Tensor,
    live: Tensor,
    column: Tensor,
    positions: Tensor,
    rows: SamplingRows,
) -> Tensor:
    """Advances b rows that are live after text int64 [b] and codes int64 [b, 8] were drawn.

    Args:
        fed: int64 [b, 17]. user_codes: int64 [b, 8]. live: bool [b]. column: int64 [B, 17] and positions: int64 [B],
            written, as are `rows`' steps, recent words and padding run.
    Returns:
        int64 [b, 8], the frame that is heard.
    """
    heard = torch.empty_like(codes)
    _finish[(len(codes),)](
        text,
        codes,
        fed,
        user_codes,
        live,
        column,
        positions,
        rows.steps,
        rows.recent,
        rows.padding_run,
        heard,
        K=STREAMS,
        CODES=CODES,
        OPEN=USER.start,
        W=rows.recent.shape[1],
        PADDING=TEXT_PADDING,
        END_OF_PADDING=TEXT_END_OF_PADDING,
        TURN_END=TURN_END_FRAMES,
        num_warps=2,
    )
    return heard
