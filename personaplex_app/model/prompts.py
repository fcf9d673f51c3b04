"""What is forced before the talk: voice, silence, text prompt, silence, laid out on the grid of positions.

In: a voice (codes, or what an official voice file replays), text tokens, the codec's constants. Out: a `PromptPlan`.
Must not know: weights, sampling, files.

Shapes: K = 17 streams, n prompt frames, T voice frames, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex_app.errors import InvalidInput
from personaplex_app.model.config import AGENT, CODEBOOKS, DELAYS, STREAMS, TEXT_PADDING, USER, CheckpointConfig

SILENCE_FRAMES = 6  # 0.5 s after the voice, and again after the text
RING_POSITIONS = 4  # of an official voice file's token ring
LARGEST_SHARE = 3  # a prompt may fill one third of the context


@dataclass(frozen=True)
class VoicePrompt:
    """A voice as the prompt forces it: either codes, or embeddings with the token ring that goes with them.

    Attributes:
        codes: int64 [8, T], or None.
        embeddings: [T - 1, D] summed input embeddings of positions 0 .. T - 2, or None.
        ring: int64 [17, 4]; column p % 4 holds position p of the last positions (T for the delayed streams).
    """

    codes: Tensor | None = None
    embeddings: Tensor | None = None
    ring: Tensor | None = None

    @property
    def frames(self) -> int:
        if self.codes is not None:
            return self.codes.shape[1]
        return 0 if self.embeddings is None else len(self.embeddings) + 1

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        parts = (self.codes, self.embeddings, self.ring)
        return sum(part.numel() * part.element_size() for part in parts if part is not None)


@dataclass(frozen=True)
class PromptPlan:
    """The forced columns of a talk with n prompt frames.

    Attributes:
        grid: int64 [17, n], tokens at positions 0 .. n - 1.
        after: int64 [17], tokens known at position n (delayed streams only; -1 where nothing is forced).
        embeddings: [m, D] that stand in for the first m columns of the grid, or None.
        text_tokens: how many frames the text prompt takes.
    """

    grid: Tensor
    after: Tensor
    embeddings: Tensor | None
    text_tokens: int

    @property
    def frames(self) -> int:
        return self.grid.shape[1]


def wrap_prompt(text: str) -> str:
    """The text between `<system>` marks, as the model was trained; already wrapped or empty text stays as it is."""
    stripped = text.strip()
    if not stripped or (stripped.startswith("<system>") and stripped.endswith("<system>")):
        return stripped
    return f"<system> {stripped} <system>"


def plan_prompt(voice: VoicePrompt | None, text_tokens: list[int], config: CheckpointConfig) -> PromptPlan:
    """Lays out voice, silence, text and silence; frame f of stream k stands at position f + delay."""
    voice = voice or VoicePrompt()
    start = voice.frames + SILENCE_FRAMES
    count = start + len(text_tokens) + SILENCE_FRAMES
    frames = torch.full((STREAMS, count), TEXT_PADDING, dtype=torch.int64)
    frames[AGENT] = torch.tensor(config.silence_codes)[:, None]
    frames[USER] = torch.tensor(config.sine_codes)[:, None]
    frames[0, start : start + len(text_tokens)] = torch.tensor(text_tokens, dtype=torch.int64)
    if voice.codes is not None:
        frames[AGENT, : voice.frames] = voice.codes
    grid, after = _delayed(frames, config)
    if voice.embeddings is not None and voice.ring is not None:
        _continue_from_ring(grid, voice.frames, voice.ring)
    return PromptPlan(grid, after, voice.embeddings, len(text_tokens))


def _delayed(frames: Tensor, config: CheckpointConfig) -> tuple[Tensor, Tensor]:
    delayed = torch.tensor(DELAYS, dtype=torch.bool)
    initial = torch.tensor(config.language.initial_tokens)
    grid = frames.clone()
    grid[delayed, 1:] = frames[delayed, :-1]
    grid[:, 0] = initial
    grid[delayed, 1] = initial[delayed]
    return grid, torch.where(delayed, frames[:, -1], -1)


def _continue_from_ring(grid: Tensor, frames: int, ring: Tensor) -> None:
    """Columns T - 1 (whole) and T (delayed streams) come from the voice file; earlier ones are its embeddings."""
    delayed = torch.tensor(DELAYS, dtype=torch.bool)
    last = frames - 1
    grid[:, last] = ring[:, last % RING_POSITIONS]
    grid[delayed, frames] = ring[delayed, frames % RING_POSITIONS]


def check_plan_length(plan: PromptPlan, context: int) -> None:
    """Raises InvalidInput when a plan fills more than a third of the context; says how many tokens are too many."""
    limit = context // LARGEST_SHARE
    unspoken = plan.frames - plan.text_tokens
    if unspoken > limit:
        raise InvalidInput(f"Voice and silence alone take {unspoken} frames, but at most {limit} fit this context.")
    if plan.frames > limit:
        raise InvalidInput(
            f"The prompt is too long: its text takes {plan.text_tokens} tokens and with voice and silence "
            f"{plan.frames} frames, but at most {limit} fit. Shorten the text by {plan.frames - limit} tokens or more.",
            code="prompt_too_long",
        )


def check_codes(codes: Tensor, audio_card: int, name: str) -> Tensor:
    """int64 [8, T] with T >= 1 and every code below the codec's cardinality, or InvalidInput."""
    if codes.ndim != 2 or codes.shape[0] != CODEBOOKS or codes.shape[1] < 1:
        raise InvalidInput(f"{name} must hold codes of shape [8, T], not {list(codes.shape)}.")
    if int(codes.min()) < 0 or int(codes.max()) >= audio_card:
        raise InvalidInput(f"{name} holds codes outside 0..{audio_card - 1}.")
    return codes.to(torch.int64)
