"""The app's two transformers once more, laid out so that they train fast: stacked matrices, whole talks at once.

In: tokens by position. Out: hidden vectors, logits. The numbers are those of `personaplex_app.model.transformer`.
Must not know: losses, data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from personaplex_app.model.config import CODEBOOKS, RMS_NORM_EPS, STREAMS, LanguageConfig

AUDIO_STREAMS = STREAMS - 1
NEVER = -1e9
DROPPED = 0.1  # of what a temporal layer adds, in training


def _normal(*shape: int, scale: int) -> nn.Parameter:
    """Random numbers of variance 1 / scale."""
    return nn.Parameter(torch.randn(*shape) / math.sqrt(scale))


def _norm(x: Tensor, alpha: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(RMS_NORM_EPS + wide.square().mean(-1, keepdim=True)) * alpha.float()).to(x.dtype)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE over interleaved pairs; x [B, H, T, E], cos and sin [B, 1, T, E / 2]."""
    one, other = x[..., 0::2], x[..., 1::2]
    return torch.stack([one * cos - other * sin, one * sin + other * cos], -1).flatten(-2).to(x.dtype)


def _embed(grid: Tensor, text_emb: Tensor, audio_emb: Tensor) -> Tensor:
    x = F.embedding(grid[:, 0], text_emb)
    for stream in range(AUDIO_STREAMS):
        x = x + F.embedding(grid[:, 1 + stream], audio_emb[stream])
    return x.bfloat16() if x.is_cuda else x


def _layer(
    x: Tensor, cos: Tensor, sin: Tensor, heads: int, dropped: float, norm1: Tensor, in_proj: Tensor, out_proj: Tensor,
    norm2: Tensor, gate_in: Tensor, gate_out: Tensor,
) -> Tensor:  # fmt: skip
    """One of the temporal layers; x [B, T, D]."""
    split = F.linear(_norm(x, norm1), in_proj).unflatten(-1, (3, heads, -1))
    query, key, value = split.permute(2, 0, 3, 1, 4)
    query, key = _turned(query, cos, sin), _turned(key, cos, sin)
    attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    x = x + F.dropout(F.linear(attended.transpose(1, 2).flatten(2), out_proj), dropped)
    gate, gated = F.linear(_norm(x, norm2), gate_in).chunk(2, -1)
    return x + F.dropout(F.linear(F.silu(gate) * gated, gate_out), dropped)


def _head(x: Tensor, norm: Tensor, text_linear: Tensor) -> tuple[Tensor, Tensor]:
    hidden = _norm(x, norm)
    return hidden, F.linear(hidden, text_linear)


def _depth_embed(hidden: Tensor, tokens: Tensor, depth_in: Tensor, text_emb: Tensor, code_emb: Tensor) -> Tensor:
    embedded = [F.embedding(tokens[:, 0], text_emb)]
    embedded += [F.embedding(tokens[:, step], code_emb[step - 1]) for step in range(1, CODEBOOKS)]
    x = torch.stack(embedded) + torch.matmul(hidden[None], depth_in.transpose(1, 2)).to(embedded[0].dtype)
    return x.bfloat16() if x.is_cuda else x


def _depth_layer(
    x: Tensor, heads: int, norm1: Tensor, in_proj: Tensor, out_proj: Tensor, norm2: Tensor, gate_in: Tensor,
    gate_out: Tensor,
) -> Tensor:  # fmt: skip
    """One of the depth layers; x [8, M, D], each step with matrices of its own."""
    causal = torch.ones(CODEBOOKS, CODEBOOKS, dtype=torch.bool, device=x.device).tril()
    split = _by_step(_norm(x, norm1), in_proj)
    query, key, value = split.unflatten(-1, (3, heads, -1)).permute(2, 1, 3, 0, 4)
    scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
    weights = scores.float().masked_fill(~causal, NEVER).softmax(-1).to(value.dtype)
    attended = torch.matmul(weights, value).permute(2, 0, 1, 3).flatten(2)
    x = x + _by_step(attended, out_proj)
    gate, gated = _by_step(_norm(x, norm2), gate_in).chunk(2, -1)
    return x + _by_step(F.silu(gate) * gated, gate_out)


def _by_step(x: Tensor, matrices: Tensor) -> Tensor:
    """x [8, M, in], a matrix [out, in] a step -> [8, M, out]."""
    return torch.bmm(x, matrices.transpose(1, 2).to(x.dtype))


@dataclass(frozen=True)
class Pieces:
    """What the network is made of, as functions: plain or compiled."""

    embed: Callable[..., Tensor] = _embed
    layer: Callable[..., Tensor] = _layer
    head: Callable[..., tuple[Tensor, Tensor]] = _head
    depth_embed: Callable[..., Tensor] = _depth_embed
    depth_layer: Callable[..., Tensor] = _depth_layer


class Network(nn.Module):
    """All matrices; L layers, S = 8 depth steps. Norms are named `*norm*`: they know no weight decay."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        self.config, self.pieces = config, Pieces()
        dim, layers, hidden, rows = config.dim, config.layers, config.hidden, config.audio_card + 1
        self.audio_emb = _normal(AUDIO_STREAMS, rows, dim, scale=dim)
        self.text_emb = _normal(config.text_card + 1, dim, scale=dim)
        self.text_linear = _normal(config.text_card, dim, scale=dim)
        self.in_proj = _normal(layers, 3 * dim, dim, scale=dim)
        self.out_proj = _normal(layers, dim, dim, scale=2 * dim * layers)
        self.gate_in = _normal(layers, 2 * hidden, dim, scale=dim)
        self.gate_out = _normal(layers, dim, hidden, scale=2 * hidden * layers)
        self.norm1, self.norm2 = nn.Parameter(torch.ones(layers, dim)), nn.Parameter(torch.ones(layers, dim))
        self.out_norm = nn.Parameter(torch.ones(dim))
        self.heard_linear = _normal(config.text_card, dim, scale=dim)  # for training alone: in no package
        self._make_depth(config)

    def _make_depth(self, config: LanguageConfig) -> None:
        dim, layers, hidden, steps = config.depth_dim, config.depth_layers, config.depth_hidden, CODEBOOKS
        self.depth_in = _normal(steps, dim, config.dim, scale=config.dim)
        self.depth_emb = _normal(steps - 1, config.audio_card + 1, dim, scale=dim)
        self.depth_text_emb = _normal(config.text_card + 1, dim, scale=dim)
        self.depth_heads = _normal(steps, config.audio_card, dim, scale=dim)
        self.depth_in_proj = _normal(layers, steps, 3 * dim, dim, scale=dim)
        self.depth_out_proj = _normal(layers, steps, dim, dim, scale=2 * dim * layers)
        self.depth_gate_in = _normal(layers, steps, 2 * hidden, dim, scale=dim)
        self.depth_gate_out = _normal(layers, steps, dim, hidden, scale=2 * hidden * layers)
        self.depth_norm1 = nn.Parameter(torch.ones(layers, dim))
        self.depth_norm2 = nn.Parameter(torch.ones(layers, dim))

    def temporal(self, grid: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """grid int64 [B, 17, T], positions int64 [B, T] -> hidden [B, T, D], text logits [B, T, V]."""
        config = self.config
        x = self.pieces.embed(grid, self.text_emb, self.audio_emb)
        steps = torch.arange(config.head_dim // 2, device=x.device, dtype=torch.float32)
        angles = positions.float()[..., None] * torch.exp(steps * (-math.log(config.max_period) * 2 / config.head_dim))
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        stacked = (self.norm1, self.in_proj, self.out_proj, self.norm2, self.gate_in, self.gate_out)
        for matrices in zip(*(one.unbind(0) for one in stacked), strict=True):
            x = self.pieces.layer(x, cos, sin, config.heads, DROPPED if self.training else 0.0, *matrices)
        return self.pieces.head(x, self.out_norm, self.text_linear)

    def heard(self, hidden: Tensor) -> Tensor:
        """hidden [B, T, D] -> logits [B, T, V] of the words that the user says."""
        return F.linear(hidden, self.heard_linear)

    def depth(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """hidden [M, D], tokens int64 [M, 8] (text, then codebooks 0-6) -> logits [8, M, card]."""
        x = self.pieces.depth_embed(hidden, tokens, self.depth_in, self.depth_text_emb, self.depth_emb)
        stacked = (
            self.depth_norm1, self.depth_in_proj, self.depth_out_proj, self.depth_norm2, self.depth_gate_in,
            self.depth_gate_out,
        )  # fmt: skip
        for matrices in zip(*(one.unbind(0) for one in stacked), strict=True):
            x = self.pieces.depth_layer(x, self.config.depth_heads, *matrices)
        return _by_step(x, self.depth_heads)

    def compile(self) -> None:  # type: ignore[override]
        """From now on the pieces are compiled, once for each shape: one layer for all layers."""
        made = {one.name: torch.compile(getattr(self.pieces, one.name), dynamic=False) for one in fields(self.pieces)}
        self.pieces = Pieces(**made)
