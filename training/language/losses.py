"""What the language model is trained on: the next text token everywhere in the talk, the next codes where it speaks.

In: a batch of talks on the device. Out: losses by name.
Must not know: where talks come from, optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from personaplex_app.model.config import DELAYS, STREAMS, TEXT_PADDING, LanguageConfig

PADDING_WEIGHT = 0.5  # of a padding token against a word's
SILENT_WEIGHT = 0.15  # of a silent frame's codes against a spoken one's
CODEBOOK_WEIGHTS = (2.0, 1.0, 1.0, 0.8, 0.7, 0.6, 0.5, 0.5)
DISTURBED_SHARE = 0.4  # of the talks: some of the user's codes are random there
USER_DISTURBANCE, AGENT_DISTURBANCE = 0.12, 0.03  # share of such codes
LAST_SPECIAL_TOKEN = 3
SHORTEST_PROMPT = 2  # frames: the initial tokens of delayed streams are no code

Temporal = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
Depth = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Batch:
    """Talks by frame.

    Attributes:
        tokens: int16 [B, 17, T]. prompt, skipped: int64 [B]. speaking: bool [B, T].
    """

    tokens: Tensor
    prompt: Tensor
    skipped: Tensor
    speaking: Tensor


def silent_batch(batch: int, frames: int, device: torch.device) -> Batch:
    """Talks of padding, spoken from behind the shortest prompt on; for shapes alone."""
    tokens = torch.full((batch, STREAMS, frames), TEXT_PADDING, dtype=torch.int16, device=device)
    prompt = torch.full((batch,), SHORTEST_PROMPT, dtype=torch.int64, device=device)
    speaking = torch.ones(batch, frames, dtype=torch.bool, device=device)
    return Batch(tokens, prompt, torch.zeros_like(prompt), speaking)


def positions_of(tokens: Tensor, config: LanguageConfig) -> Tensor:
    """Tokens by frame [B, 17, T] onto the grid of positions: delayed streams one later, initial tokens in front."""
    frames = tokens.long()
    delayed = torch.tensor(DELAYS, dtype=torch.bool, device=tokens.device)
    initial = torch.tensor(config.initial_tokens, device=tokens.device)
    grid = frames.clone()
    grid[:, delayed, 1:] = frames[:, delayed, :-1]
    grid[:, delayed, 1] = initial[delayed]
    grid[:, :, 0] = initial
    return grid


def losses(
    batch: Batch, config: LanguageConfig, temporal: Temporal, depth: Depth, depth_positions: int
) -> dict[str, Tensor]:
    """`text` and `audio` to be added and minimized; `word` and `first_code` to look at."""
    grid = positions_of(batch.tokens, config)
    count = grid.shape[2] - 1
    order = torch.arange(count, device=grid.device)[None]
    in_talk = order + 1 >= batch.prompt[:, None]
    at = order + torch.where(order >= batch.prompt[:, None], batch.skipped[:, None], 0)
    hidden, logits = temporal(_disturbed(grid[:, :, :-1], in_talk, config), at)
    made = _text_losses(logits, grid[:, 0, 1:], in_talk)
    return made | _audio_losses(hidden, grid, batch.speaking[:, 1:], in_talk, depth, depth_positions)


def _disturbed(grid: Tensor, in_talk: Tensor, config: LanguageConfig) -> Tensor:
    """The input with some codes of the talk replaced by random ones: a call is never as clean as the shelves."""
    chance = torch.full((grid.shape[0], grid.shape[1], 1), AGENT_DISTURBANCE, device=grid.device)
    chance[:, 0] = 0.0
    hit = torch.rand(grid.shape[0], 1, 1, device=grid.device) < DISTURBED_SHARE
    chance[:, 9:] = torch.where(hit, USER_DISTURBANCE, 0.0)
    replaced = (torch.rand(grid.shape, device=grid.device) < chance) & in_talk[:, None]
    return torch.where(replaced, torch.randint_like(grid, config.audio_card), grid)


def _text_losses(logits: Tensor, wanted: Tensor, in_talk: Tensor) -> dict[str, Tensor]:
    each = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), reduction="none").view_as(wanted)
    weight = in_talk.float() * torch.where(wanted == TEXT_PADDING, PADDING_WEIGHT, 1.0)
    word = in_talk & (wanted > LAST_SPECIAL_TOKEN)
    return {
        "text": (each * weight).sum() / weight.sum().clamp(min=1),
        "word": (each * word).sum().detach() / word.sum().clamp(min=1),
    }


def _audio_losses(
    hidden: Tensor, grid: Tensor, speaking: Tensor, in_talk: Tensor, depth: Depth, depth_positions: int
) -> dict[str, Tensor]:
    """A part of the positions, those where the agent speaks first."""
    chance = torch.where(in_talk, torch.rand_like(in_talk, dtype=torch.float32) + speaking.float(), -1.0)
    chosen = chance.flatten().topk(min(depth_positions, chance.numel())).indices
    wanted = grid[:, :9, 1:].permute(0, 2, 1).flatten(0, 1)[chosen]
    logits = depth(hidden.flatten(0, 1)[chosen], wanted[:, :8])
    each = F.cross_entropy(logits.flatten(0, 1).float(), wanted[:, 1:].t().flatten(), reduction="none")
    weight = SILENT_WEIGHT + (1 - SILENT_WEIGHT) * speaking.flatten()[chosen].float()
    by_codebook = (each.view(8, -1) * weight).sum(1) / weight.sum()
    share = torch.tensor(CODEBOOK_WEIGHTS, device=grid.device)
    return {"audio": (by_codebook * share).sum() / share.sum(), "first_code": by_codebook[0].detach()}
