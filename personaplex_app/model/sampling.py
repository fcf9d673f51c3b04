"""Drawing tokens: temperature, top-k, repetition penalty and random numbers, a row per slot, on the device.

In: logits and the rows' sampling parameters as tensors. Out: token ids. Every random number is a function of
(seed, step, stream) alone, so a conversation draws the same whoever else is in the batch.
Must not know: transformers, where logits come from.

Shapes: B slots, V vocabulary, W = 64 penalty window.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex_app.controls import PENALTY_WINDOW_TOKENS, SamplingSettings
from personaplex_app.model.config import CODEBOOKS, TEXT_END_OF_PADDING, TEXT_PADDING

TURN_END_FRAMES = 12  # so many padding tokens in a row (0.96 s) end a turn of the agent
SAMPLED_STREAMS = 1 + CODEBOOKS
_MASK32 = 0xFFFFFFFF


@dataclass
class SamplingRows:
    """The sampling parameters of all rows, as tensors that each step reads.

    Attributes:
        audio_temperature, text_temperature, penalty: float32 [B]; temperature 0 is greedy, penalty 1 is off.
        audio_top_k, text_top_k: int64 [B], 0 is no limit. window: int64 [B], tokens the penalty looks back.
        seed: int64 [B]. steps: int64 [B], steps since the row's conversation began.
        recent: int64 [B, W] last non-padding text tokens, newest last, -1 where none.
        padding_run: int64 [B] padding tokens since the last word.
    """

    audio_temperature: Tensor
    text_temperature: Tensor
    audio_top_k: Tensor
    text_top_k: Tensor
    penalty: Tensor
    window: Tensor
    seed: Tensor
    steps: Tensor
    recent: Tensor
    padding_run: Tensor

    @classmethod
    def empty(cls, slots: int, device: torch.device) -> SamplingRows:
        """Rows at rest: greedy, no penalty, nothing said yet."""

        def whole(fill: int = 0) -> Tensor:
            return torch.full((slots,), fill, dtype=torch.int64, device=device)

        def real(fill: float) -> Tensor:
            return torch.full((slots,), fill, dtype=torch.float32, device=device)

        recent = torch.full((slots, PENALTY_WINDOW_TOKENS), -1, dtype=torch.int64, device=device)
        window = whole(PENALTY_WINDOW_TOKENS)
        return cls(real(0), real(0), whole(), whole(), real(1), window, whole(), whole(), recent, whole())

    def apply(self, slot: int, settings: SamplingSettings) -> None:
        """Writes one row's settings; they hold from the next step on."""
        self.audio_temperature[slot] = settings.audio_temperature
        self.text_temperature[slot] = settings.text_temperature
        self.audio_top_k[slot] = settings.audio_top_k
        self.text_top_k[slot] = settings.text_top_k
        self.penalty[slot] = settings.repetition_penalty
        self.window[slot] = settings.penalty_window_tokens

    def begin(self, slot: int, seed: int) -> None:
        """A new conversation in this row: its seed, nothing drawn, nothing said."""
        self.seed[slot] = seed
        self.steps[slot] = 0
        self.recent[slot] = -1
        self.padding_run[slot] = 0

    def note_text(self, text: Tensor, live: Tensor) -> None:
        """Advances the live rows (bool [B]) after `text` int64 [B] was chosen: steps, penalty window, turn's end."""
        padding = (text == TEXT_PADDING) | (text == TEXT_END_OF_PADDING)
        spoken = live & ~padding
        shifted = torch.cat([self.recent[:, 1:], text[:, None]], dim=1)
        self.padding_run += live
        self.padding_run.masked_fill_(spoken, 0)
        over = live & (self.padding_run >= TURN_END_FRAMES)
        self.recent.copy_(torch.where(spoken[:, None], shifted, self.recent).masked_fill_(over[:, None], -1))
        self.steps += live


def uniform_noise(seed: Tensor, steps: Tensor) -> Tensor:
    """float32 [B, 9] in [0, 1), a function of (seed [B], steps [B], stream); int64 holds 32-bit arithmetic."""
    streams = torch.arange(SAMPLED_STREAMS, device=seed.device)
    bits = _mix(_mix(seed & _MASK32) ^ ((seed >> 32) & _MASK32))
    bits = _mix(bits ^ (steps & _MASK32))
    bits = _mix(bits[:, None] ^ (streams * 0x9E3779B1 & _MASK32))
    return (bits >> 8).float() * 2.0**-24


def _mix(x: Tensor) -> Tensor:
    """A 32-bit finalizer (two multiply-xorshift rounds): neighbouring inputs give unrelated outputs."""
    x = (x + 0x9E3779B9) & _MASK32
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK32
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK32
    return x ^ (x >> 16)


def penalize(logits: Tensor, recent: Tensor, window: Tensor, penalty: Tensor) -> Tensor:
    """Repetition penalty on text.

    Args:
        logits: [B, V]. recent: int64 [B, W]. window: int64 [B]. penalty: float32 [B].
    Returns:
        [B, V] where the distinct ids among the last `window` tokens are divided by the penalty if positive,
        multiplied if negative. Padding never enters `recent`, so it is exempt.
    """
    vocabulary = logits.shape[-1]
    ages = torch.arange(recent.shape[1], 0, -1, device=recent.device)
    ids = torch.where((recent >= 0) & (ages <= window[:, None]), recent, vocabulary)
    seen = torch.zeros(len(logits), vocabulary + 1, dtype=torch.bool, device=logits.device)
    seen.scatter_(1, ids, True)
    rate = penalty[:, None]
    return torch.where(seen[:, :-1], torch.where(logits > 0, logits / rate, logits * rate), logits)


def _ordered(logits: Tensor) -> Tensor:
    """int64 [B, V] that sorts as the logits do, ties by id: `topk` alone orders ties by how many are asked for."""
    bits = logits.float().view(torch.int32).to(torch.int64)
    places = torch.arange(logits.shape[-1] - 1, -1, -1, device=logits.device)
    return ((bits ^ ((bits >> 31) & 0x7FFFFFFF)) << 20) + places


def draw(logits: Tensor, temperature: Tensor, top_k: Tensor, noise: Tensor, widest: int) -> Tensor:
    """One token a row.

    Args:
        logits: [B, V]. temperature: [B], 0 is greedy. top_k: int64 [B], 0 is no limit. noise: [B] in [0, 1).
        widest: how many candidates the widest row needs, known on the host; 1 when every row is greedy.
    Returns:
        int64 [B].
    """
    greedy = logits.argmax(-1)
    if widest <= 1:
        return greedy
    _, ids = torch.topk(_ordered(logits), widest, dim=-1)
    values = logits.float().gather(1, ids)
    scale = torch.where(temperature > 0, temperature, 1.0)[:, None]
    weights = torch.exp((values - values[:, :1]) / scale)
    # Prefix sums up to a row's own k do not depend on how many more candidates a neighbour asked for.
    sums = weights.double().cumsum(-1)
    last = torch.where(top_k > 0, top_k.clamp(max=widest), widest) - 1
    total = sums.gather(1, last[:, None])
    index = (sums <= noise[:, None].double() * total).sum(-1).clamp(max=last)
    drawn = ids.gather(1, index[:, None]).squeeze(1)
    return torch.where(temperature > 0, drawn, greedy)


def widest_candidates(settings: list[tuple[float, int]], vocabulary: int) -> int:
    """Of (temperature, top_k) of the live rows, how many candidates `draw` must look at; 1 when all are greedy."""
    wanted = [1]
    for temperature, top_k in settings:
        if temperature > 0:
            wanted.append(top_k if 0 < top_k < vocabulary else vocabulary)
    return max(wanted)
