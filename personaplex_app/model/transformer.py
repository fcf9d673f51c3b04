"""The temporal and the depth transformer: weights in modules, streaming state handed in.

In: token columns or embeddings, the rows' key-value cache, where to write and how far to read.
Out: hidden vectors, text logits; for the depth transformer the 8 agent codes, drawn through a callback.
Must not know: sessions, prompts, files. No module here keeps anything between two calls.

Shapes: B slots, K = 17 streams, T positions, D width, H heads, E head width, C context, V vocabulary.
Source of the architecture: moshi 0.2.13, `models/lm.py` and `modules/transformer.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from personaplex_app.model.config import CODEBOOKS, RMS_NORM_EPS, STREAMS, LanguageConfig


class Linear(nn.Linear):
    """A matrix without bias, made empty: a loader fills it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)


class Norm(nn.Module):
    """RMS norm computed in float32 (moshi's `rms_norm_f32`)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.alpha.shape, self.alpha.float(), RMS_NORM_EPS).to(x.dtype)


class Layer(nn.Module):
    """The matrices of one transformer layer: attention in and out, gated feed-forward in and out."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = Norm(dim)
        self.in_proj = Linear(dim, 3 * dim)
        self.out_proj = Linear(dim, dim)
        self.norm2 = Norm(dim)
        self.gate_in = Linear(dim, 2 * hidden)
        self.gate_out = Linear(hidden, dim)

    def feed_forward(self, x: Tensor) -> Tensor:
        """x [.., D] plus its gated feed-forward."""
        gate, value = self.gate_in(self.norm2(x)).chunk(2, dim=-1)
        return x + self.gate_out(F.silu(gate) * value)


@dataclass
class Span:
    """Where this step's B rows stand in their rings.

    Attributes:
        cos, sin: [B, 1, 1, E / 2, 1] rotation of each row's position; sin is signed for the swapped pair.
        places: [B] ring index that each row writes.
        rows: (row, place, readable length) of the rows that are live, known on the host; used on a CPU.
        mask: [B, 1, 1, S] what each row may read of the first S ring places; used on a GPU.
    """

    cos: Tensor
    sin: Tensor
    places: Tensor
    rows: list[tuple[int, int, int]]
    mask: Tensor | None


def rotation(positions: Tensor, head_dim: int, max_period: float) -> tuple[Tensor, Tensor]:
    """cos and signed sin for `rotate`, each [.., E / 2, 2], from positions [..]."""
    steps = torch.arange(head_dim // 2, device=positions.device, dtype=torch.float32)
    frequencies = torch.exp(steps * (-math.log(max_period) * 2 / head_dim))
    angles = positions.float().unsqueeze(-1) * frequencies
    cos, sin = torch.cos(angles), torch.sin(angles)
    return torch.stack([cos, cos], -1), torch.stack([-sin, sin], -1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE over interleaved pairs; x [.., E], cos and sin broadcast to [.., E / 2, 2]; computed in float32."""
    pairs = x.float().unflatten(-1, (-1, 2))
    return (pairs * cos + pairs.flip(-1) * sin).flatten(-2).to(x.dtype)


class TemporalTransformer(nn.Module):
    """Reads one column of 17 tokens a position, yields a hidden vector and the text logits."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        self.config = config
        self.text_emb = nn.Embedding(config.text_card + 1, config.dim)
        self.audio_emb = nn.Embedding((STREAMS - 1) * (config.audio_card + 1), config.dim)
        self.layers = nn.ModuleList(Layer(config.dim, config.hidden) for _ in range(config.layers))
        self.out_norm = Norm(config.dim)
        self.text_linear = Linear(config.dim, config.text_card)
        self.audio_offsets: Tensor
        offsets = torch.arange(STREAMS - 1) * (config.audio_card + 1)
        self.register_buffer("audio_offsets", offsets, persistent=False)

    def embed(self, columns: Tensor) -> Tensor:
        """int64 [.., 17] to the summed embeddings [.., D]."""
        audio = F.embedding(columns[..., 1:] + self.audio_offsets, self.audio_emb.weight)
        return audio.sum(-2) + F.embedding(columns[..., 0], self.text_emb.weight)

    def step(self, x: Tensor, kv: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """One position for every row.

        Args:
            x: [B, D] embeddings. kv: [L, B, 2, H, C, E], written in place. span: where the rows stand.
        Returns:
            hidden [B, D] after the last norm, text logits [B, V].
        """
        heads = self.config.heads
        for layer, cache in zip(_layers(self.layers), kv, strict=True):
            projected = layer.in_proj(layer.norm1(x)).unflatten(-1, (3, heads, -1))
            turned = rotate(projected[:, :2], span.cos, span.sin)
            attended = _attend_step(turned[:, 0], turned[:, 1], projected[:, 2], cache, span)
            x = layer.feed_forward(x + layer.out_proj(attended))
        hidden = self.out_norm(x)
        return hidden, self.text_linear(hidden)

    def prefill(self, x: Tensor, kv_row: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        """T known positions of one row in one pass, ring places `first` .. `first + T - 1`.

        Args:
            x: [T, D] embeddings; first + T must fit the ring. kv_row: [L, 2, H, C, E], written in place.
        Returns:
            hidden [T, D] after the last norm, text logits [T, V].
        """
        count, heads = x.shape[0], self.config.heads
        positions = torch.arange(first, first + count, device=x.device)
        cos, sin = rotation(positions, self.config.head_dim, self.config.max_period)
        mask = positions[:, None] >= torch.arange(first + count, device=x.device)
        for layer, cache in zip(_layers(self.layers), kv_row, strict=True):
            projected = layer.in_proj(layer.norm1(x)).unflatten(-1, (3, heads, -1)).permute(1, 2, 0, 3)
            turned = rotate(projected[:2], cos, sin)
            cache[0, :, first : first + count] = turned[1]
            cache[1, :, first : first + count] = projected[2]
            readable = cache[:, None, :, : first + count]
            attended = F.scaled_dot_product_attention(turned[:1], readable[0], readable[1], attn_mask=mask)
            x = layer.feed_forward(x + layer.out_proj(attended[0].transpose(0, 1).flatten(1)))
        hidden = self.out_norm(x)
        return hidden, self.text_linear(hidden)


def _layers(modules: nn.Module) -> Iterable[Layer]:
    """A module list as what it holds."""
    return cast("Iterable[Layer]", modules)


def _attend_step(query: Tensor, key: Tensor, value: Tensor, cache: Tensor, span: Span) -> Tensor:
    """query, key, value [B, H, E]; cache [B, 2, H, C, E] is written at the rows' places; returns [B, H * E]."""
    if span.mask is not None:
        every = torch.arange(len(query), device=query.device)
        cache[every, 0, :, span.places] = key
        cache[every, 1, :, span.places] = value
        readable = cache[:, :, :, : span.mask.shape[-1]]
        out = F.scaled_dot_product_attention(query.unsqueeze(2), readable[:, 0], readable[:, 1], attn_mask=span.mask)
        return out.flatten(1)
    # Row by row with its own length: on a CPU a row then never pays for, nor rounds by, a neighbour's longer past.
    out = torch.zeros_like(query)
    for row, place, length in span.rows:
        cache[row, 0, :, place] = key[row]
        cache[row, 1, :, place] = value[row]
        past = cache[row, :, None, :, :length]
        out[row] = F.scaled_dot_product_attention(query[row, None, :, None], past[0], past[1])[0, :, 0]
    return out.flatten(1)


class DepthTransformer(nn.Module):
    """Draws the 8 agent codes of one position one after another, each with weights of its own."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        self.config = config
        self.in_proj = Linear(config.dim, CODEBOOKS * config.depth_dim)
        self.text_emb = nn.Embedding(config.text_card + 1, config.depth_dim)
        self.audio_emb = nn.ModuleList(
            nn.Embedding(config.audio_card + 1, config.depth_dim) for _ in range(CODEBOOKS - 1)
        )
        self.steps = nn.ModuleList(
            nn.ModuleList(Layer(config.depth_dim, config.depth_hidden) for _ in range(config.depth_layers))
            for _ in range(CODEBOOKS)
        )
        self.heads = nn.ModuleList(Linear(config.depth_dim, config.audio_card) for _ in range(CODEBOOKS))

    def forward(self, hidden: Tensor, text: Tensor, choose: Callable[[int, Tensor], Tensor], count: int) -> Tensor:
        """Draws the first `count` codes.

        Args:
            hidden: [B, D] of the temporal transformer. text: int64 [B], the text token just chosen.
            choose: (codebook, logits [B, V]) -> int64 [B], the code that stands there.
        Returns:
            int64 [B, count].
        """
        config = self.config
        inputs = self.in_proj(hidden).unflatten(-1, (CODEBOOKS, -1))
        shape = (
            config.depth_layers,
            2,
            len(hidden),
            config.depth_heads,
            CODEBOOKS,
            config.depth_dim // config.depth_heads,
        )
        cache = hidden.new_empty(shape)
        codes: list[Tensor] = []
        for step in range(count):
            embedding = self.text_emb(text) if step == 0 else self.audio_emb[step - 1](codes[-1])
            x = self._layers(step, inputs[:, step] + embedding, cache)
            codes.append(choose(step, self.heads[step](x)))
        return torch.stack(codes, dim=1)

    def _layers(self, step: int, x: Tensor, cache: Tensor) -> Tensor:
        for layer, past in zip(_layers(self.steps[step]), cache, strict=True):
            projected = layer.in_proj(layer.norm1(x)).unflatten(-1, (3, self.config.depth_heads, -1))
            past[0, :, :, step] = projected[:, 1]
            past[1, :, :, step] = projected[:, 2]
            readable = past[:, :, :, : step + 1]
            attended = F.scaled_dot_product_attention(projected[:, 0].unsqueeze(2), readable[0], readable[1])
            x = layer.feed_forward(x + layer.out_proj(attended.flatten(1)))
        return x
