"""What the language model is trained on: the next text token everywhere in the talk, the next codes where it speaks.

In: a batch of talks on the device. Out: losses by name.
Must not know: where talks come from, optimizers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from personaplex_app.model.config import DELAYS, STREAMS, TEXT_PADDING, LanguageConfig
from training.language.assembler import NOTHING
from training.language.disturbance import disturbed
from training.language.network import Network

PADDING_WEIGHT = 0.25  # of a padding token against a word's
SILENT_WEIGHT = 0.15  # of a silent frame's codes against a spoken one's
CODEBOOK_WEIGHTS = (2.0, 1.0, 1.0, 0.8, 0.7, 0.6, 0.5, 0.5)
LAST_SPECIAL_TOKEN = 3
HEARD_WEIGHT = 0.3
SHORTEST_PROMPT = 2  # frames: the initial tokens of delayed streams are no code


@dataclass(frozen=True)
class Batch:
    """Talks by frame.

    Attributes:
        tokens: int16 [B, 17, T]. prompt, skipped: int64 [B]. speaking: bool [B, T]. heard: int16 [B, T].
    """

    tokens: Tensor
    prompt: Tensor
    skipped: Tensor
    speaking: Tensor
    heard: Tensor

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them."""
        return self.tokens, self.prompt, self.skipped, self.speaking, self.heard


def silent_batch(batch: int, frames: int, device: torch.device) -> Batch:
    """Talks of padding, spoken from behind the shortest prompt on; for shapes alone."""
    tokens = torch.full((batch, STREAMS, frames), TEXT_PADDING, dtype=torch.int16, device=device)
    prompt = torch.full((batch,), SHORTEST_PROMPT, dtype=torch.int64, device=device)
    speaking = torch.ones(batch, frames, dtype=torch.bool, device=device)
    return Batch(tokens, prompt, torch.zeros_like(prompt), speaking, tokens[:, 0])


def positions_of(tokens: Tensor, config: LanguageConfig) -> Tensor:
    """Tokens by frame [B, 17, T] onto the grid of positions: delayed streams one later, initial tokens in front."""
    frames = tokens.long()
    late = [frames.new_full((frames.shape[0], 1), config.initial_tokens[stream]) for stream in range(STREAMS)]
    rows = [
        torch.cat([late[stream], late[stream], row[:, 1:-1]] if DELAYS[stream] else [late[stream], row[:, 1:]], 1)
        for stream, row in enumerate(frames.unbind(1))
    ]
    return torch.stack(rows, 1)


def losses(batch: Batch, network: Network, depth_positions: int) -> dict[str, Tensor]:
    """`text`, `audio` and `heard` to be added and minimized; `word` and `first_code` to look at.

    Nothing here waits for the device or copies to it, so that a whole step can be recorded.
    """
    config = network.config
    grid = positions_of(batch.tokens, config)
    count = grid.shape[2] - 1
    order = torch.arange(count, device=grid.device)[None]
    in_talk = order + 1 >= batch.prompt[:, None]
    at = order + batch.skipped[:, None] * (order >= batch.prompt[:, None])
    read = grid[:, :, :-1]
    hidden, logits = network.temporal(disturbed(read, in_talk, config) if network.training else read, at)
    made = _text_losses(logits, grid[:, 0, 1:], in_talk)
    made["heard"] = HEARD_WEIGHT * _heard_loss(network.heard(hidden), batch.heard[:, 1:].long())
    return made | _audio_losses(hidden, grid, batch.speaking[:, 1:], in_talk, network, depth_positions)


def _text_losses(logits: Tensor, wanted: Tensor, in_talk: Tensor) -> dict[str, Tensor]:
    each = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), reduction="none").view_as(wanted)
    weight = in_talk.float().masked_fill(in_talk & (wanted == TEXT_PADDING), PADDING_WEIGHT)
    word = in_talk & (wanted > LAST_SPECIAL_TOKEN)
    return {
        "text": (each * weight).sum() / weight.sum().clamp(min=1),
        "word": (each * word).sum().detach() / word.sum().clamp(min=1),
    }


def _heard_loss(logits: Tensor, wanted: Tensor) -> Tensor:
    """Of the user's words: whoever can write down what was said does not mistake one question for another."""
    each = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), reduction="none", ignore_index=NOTHING)
    return each.sum() / (wanted != NOTHING).sum().clamp(min=1)


def _audio_losses(
    hidden: Tensor, grid: Tensor, speaking: Tensor, in_talk: Tensor, network: Network, depth_positions: int
) -> dict[str, Tensor]:
    """A part of the positions, those where the agent speaks first."""
    chance = (torch.rand_like(in_talk, dtype=torch.float32) + speaking.float()).masked_fill(~in_talk, -1.0)
    chosen = chance.flatten().topk(min(depth_positions, chance.numel()), sorted=False).indices
    wanted = grid[:, :9, 1:].permute(0, 2, 1).flatten(0, 1).index_select(0, chosen)
    logits = network.depth(hidden.flatten(0, 1).index_select(0, chosen), wanted[:, :8])
    each = F.cross_entropy(logits.flatten(0, 1).float(), wanted[:, 1:].t().flatten(), reduction="none")
    weight = SILENT_WEIGHT + (1 - SILENT_WEIGHT) * speaking.flatten().index_select(0, chosen).float()
    by_codebook = (each.view(8, -1) * weight).sum(1) / weight.sum()
    weighted = [share * one for share, one in zip(CODEBOOK_WEIGHTS, by_codebook.unbind(), strict=True)]
    return {"audio": torch.stack(weighted).sum() / sum(CODEBOOK_WEIGHTS), "first_code": by_codebook[0].detach()}
