"""One step of the language model as tensor arithmetic on the state: nothing here asks the host, so a GPU can replay it.

In: weights, state, the users' codes, which rows are live, and the step's shape. Out: `Advance`; the state is advanced.
Must not know: sound, prompts, sessions.

Shapes: B slots, K = 17 streams, V vocabulary, S ring places that can be read.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex_app.controls import SamplingSettings
from personaplex_app.model import sampling as draws
from personaplex_app.model.config import CODEBOOKS, USER, LanguageConfig
from personaplex_app.model.loading import Weights
from personaplex_app.model.state import LanguageState, Rows
from personaplex_app.model.transformer import Span, rotation

REACH_POSITIONS = 512  # attention reads the ring in such strides
CANDIDATES = (1, 32, 256)  # how many tokens drawing looks at; more means all


@dataclass(frozen=True)
class StepShape:
    """What a step's arithmetic depends on besides tensors; one recorded graph each.

    Attributes:
        reach: ring places that attention reads, or None for row by row with each row's own length.
        text_candidates, audio_candidates: of the widest row; `sampling.draw` gives the same for any that suffice.
        penalized: whether any row has a repetition penalty.
    """

    reach: int | None
    text_candidates: int
    audio_candidates: int
    penalized: bool


def shape_for(
    config: LanguageConfig, positions: list[int], settings: list[SamplingSettings], masked: bool
) -> StepShape:
    """The shape that suffices for rows at these positions with these settings."""
    reach = None
    if masked:
        longest = min(max(positions, default=0) + 1, config.context)
        reach = min(-(-longest // REACH_POSITIONS) * REACH_POSITIONS, config.context)
    text = draws.widest_candidates([(s.text_temperature, s.text_top_k) for s in settings], config.text_card)
    audio = draws.widest_candidates([(s.audio_temperature, s.audio_top_k) for s in settings], config.audio_card)
    return StepShape(
        reach=reach,
        text_candidates=_rounded(text, config.text_card),
        audio_candidates=_rounded(audio, config.audio_card),
        penalized=any(s.repetition_penalty != 1.0 for s in settings),
    )


def _rounded(candidates: int, vocabulary: int) -> int:
    return next((size for size in CANDIDATES if candidates <= size <= vocabulary), vocabulary)


@dataclass(frozen=True)
class Advance:
    """What one step gives, a row per slot; rows that rested hold nothing of meaning.

    Attributes:
        text: int64 [B], the text token at the step's own position. next_text: int64 [B], chosen for the next one.
        codes: int64 [B, 8], the audible agent frame. healthy: bool [B], False where a logit was not finite.
        fed: int64 [B, K], the column that the step read.
    """

    text: Tensor
    next_text: Tensor
    codes: Tensor
    healthy: Tensor
    fed: Tensor


Row = tuple[int, int, int]  # slot, ring place to write, readable length


def compute_step(
    weights: Weights, state: LanguageState, user_codes: Tensor, live: Tensor, shape: StepShape, rows: list[Row]
) -> Advance:
    """One position for every live row.

    Args:
        user_codes: int64 [B, 8]. live: bool [B], the others rest. rows: the live rows, used where shape.reach is None.
    """
    open_user = state.column[:, USER.start]
    open_user.copy_(torch.where(live, user_codes[:, 0], open_user))
    fed = state.column.clone()
    x = weights.temporal.embed(fed)
    hidden, logits = weights.temporal.step(x, state.kv, _span(state, shape, rows))
    noise = draws.uniform_noise(state.sampling.seed, state.sampling.steps)
    text = draw_text(state, logits, noise, slice(None), shape)
    codes = draw_codes(weights, state, hidden, text, noise, slice(None), shape, CODEBOOKS)
    column = torch.cat([text[:, None], codes, fed[:, USER.start : USER.start + 1], user_codes[:, 1:]], dim=1)
    state.column.copy_(torch.where(live[:, None], column, fed))
    state.sampling.note_text(text, live)
    state.positions += live
    return Advance(
        text=fed[:, 0],
        next_text=text,
        codes=torch.cat([fed[:, 1:2], codes[:, 1:]], dim=1),
        healthy=torch.isfinite(logits.sum(-1)) & torch.isfinite(hidden.sum(-1)),
        fed=fed,
    )


def _span(state: LanguageState, shape: StepShape, rows: list[Row]) -> Span:
    config = state.config
    cos, sin = rotation(state.positions, config.head_dim, config.max_period)
    mask = None
    if shape.reach is not None:
        mask = (torch.arange(shape.reach, device=state.positions.device) <= state.positions[:, None])[:, None, None]
    return Span(cos[:, None, None], sin[:, None, None], state.positions % config.context, rows, mask)


def draw_text(state: Rows, logits: Tensor, noise: Tensor, rows: slice, shape: StepShape) -> Tensor:
    """Text tokens int64 for some rows from their logits, penalty and all."""
    params = state.sampling
    if shape.penalized:
        logits = draws.penalize(logits, params.recent[rows], params.window[rows], params.penalty[rows])
    temperature, top_k = params.text_temperature[rows], params.text_top_k[rows]
    return draws.draw(logits, temperature, top_k, noise[:, 0], shape.text_candidates)


def draw_codes(
    weights: Weights,
    state: Rows,
    hidden: Tensor,
    text: Tensor,
    noise: Tensor,
    rows: slice,
    shape: StepShape,
    count: int,
) -> Tensor:
    """The first `count` agent codes int64 [rows, count] for some rows."""
    temperature, top_k = state.sampling.audio_temperature[rows], state.sampling.audio_top_k[rows]

    def choose(codebook: int, logits: Tensor) -> Tensor:
        return draws.draw(logits, temperature, top_k, noise[:, 1 + codebook], shape.audio_candidates)

    return weights.depth(hidden, text, choose, count)
