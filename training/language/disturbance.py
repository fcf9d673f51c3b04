"""What the language model sees of a talk in training: less than there is, and some of it wrong.

In: tokens by position. Out: the same, disturbed. Must not know: losses, networks.

A network of this size learns some thousand tracks by heart within minutes, their noise included, and then hears nothing
else. So no draw of a track is seen twice: codes are random at a rate of their own a talk, finer codebooks are unknown,
frames are lost. Unknown is the token that stands before the first frame.
"""

from __future__ import annotations

import torch
from torch import Tensor

from personaplex_app.model.config import CODEBOOKS, LanguageConfig

RANDOM_SHARE, MOST_RANDOM = 0.7, 0.3  # of the talks: up to so many of the user's codes are random
COARSE_SHARE, COARSEST = 0.5, 1  # of the talks: of each frame only the first codebooks are known, at least one
LOST_FRAMES = 0.03  # of the user's
AGENT_RANDOM = 0.03  # of the agent's codes: a call is never as clean as the shelves


def disturbed(grid: Tensor, in_talk: Tensor, config: LanguageConfig) -> Tensor:
    """int64 [B, 17, T]; text stays, and whatever lies before the talk. in_talk: bool [B, T]."""
    rows, device = len(grid), grid.device
    text, agent, user = grid.split((1, CODEBOOKS, CODEBOOKS), 1)
    open_to_it = in_talk[:, None]
    agent = _with_random(agent, torch.full((rows, 1, 1), AGENT_RANDOM, device=device), open_to_it, config)
    rate = MOST_RANDOM * torch.rand(rows, 1, 1, device=device)
    user = _with_random(user, rate * _happens(rows, RANDOM_SHARE, device), open_to_it, config)
    known = COARSEST + torch.rand(rows, 1, 1, device=device) * (CODEBOOKS - COARSEST)
    finer = torch.arange(CODEBOOKS, device=device)[:, None] >= known
    unknown = finer & _happens(rows, COARSE_SHARE, device)
    lost = torch.rand(rows, 1, grid.shape[2], device=device) < LOST_FRAMES
    return torch.cat([text, agent, user.masked_fill((unknown | lost) & open_to_it, config.audio_card)], 1)


def _happens(rows: int, share: float, device: torch.device) -> Tensor:
    """bool [B, 1, 1]."""
    return torch.rand(rows, 1, 1, device=device) < share


def _with_random(codes: Tensor, rate: Tensor, open_to_it: Tensor, config: LanguageConfig) -> Tensor:
    hit = (torch.rand(codes.shape, device=codes.device) < rate) & open_to_it
    return torch.where(hit, torch.randint_like(codes, config.audio_card), codes)
