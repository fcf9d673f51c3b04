"""The app's two transformers once more, laid out so that they train fast: stacked matrices, whole talks at once.

In: tokens by position. Out: hidden vectors, logits. The numbers are those of `personaplex_app.model.transformer`.
Must not know: losses, data.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from personaplex_app.model.config import CODEBOOKS, RMS_NORM_EPS, STREAMS, LanguageConfig

AUDIO_STREAMS = STREAMS - 1
NEVER = -1e9


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


class Network(nn.Module):
    """All matrices; L layers, S = 8 depth steps. Norms are named `*norm*`: they know no weight decay."""

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        self.config = config
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
        x = F.embedding(grid[:, 0], self.text_emb)
        for stream in range(AUDIO_STREAMS):
            x = x + F.embedding(grid[:, 1 + stream], self.audio_emb[stream])
        steps = torch.arange(config.head_dim // 2, device=x.device, dtype=torch.float32)
        angles = positions.float()[..., None] * torch.exp(steps * (-math.log(config.max_period) * 2 / config.head_dim))
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        x = x.bfloat16() if x.is_cuda else x
        for layer in range(config.layers):
            split = F.linear(_norm(x, self.norm1[layer]), self.in_proj[layer]).unflatten(-1, (3, config.heads, -1))
            query, key, value = split.permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(
                _turned(query, cos, sin), _turned(key, cos, sin), value, is_causal=True
            )
            x = x + F.linear(attended.transpose(1, 2).flatten(2), self.out_proj[layer])
            gate, gated = F.linear(_norm(x, self.norm2[layer]), self.gate_in[layer]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * gated, self.gate_out[layer])
        hidden = _norm(x, self.out_norm)
        return hidden, F.linear(hidden, self.text_linear)

    def depth(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """hidden [M, D], tokens int64 [M, 8] (text, then codebooks 0-6) -> logits [8, M, card]."""
        config = self.config
        embedded = [F.embedding(tokens[:, 0], self.depth_text_emb)]
        embedded += [F.embedding(tokens[:, step], self.depth_emb[step - 1]) for step in range(1, CODEBOOKS)]
        x = torch.stack(embedded) + torch.matmul(hidden[None], self.depth_in.transpose(1, 2)).to(embedded[0].dtype)
        x = x.bfloat16() if x.is_cuda else x
        causal = torch.ones(CODEBOOKS, CODEBOOKS, dtype=torch.bool, device=x.device).tril()
        for layer in range(config.depth_layers):
            split = _by_step(_norm(x, self.depth_norm1[layer]), self.depth_in_proj[layer])
            query, key, value = split.unflatten(-1, (3, config.depth_heads, -1)).permute(2, 1, 3, 0, 4)
            scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
            weights = scores.float().masked_fill(~causal, NEVER).softmax(-1).to(value.dtype)
            attended = torch.matmul(weights, value).permute(2, 0, 1, 3).flatten(2)
            x = x + _by_step(attended, self.depth_out_proj[layer])
            gate, gated = _by_step(_norm(x, self.depth_norm2[layer]), self.depth_gate_in[layer]).chunk(2, -1)
            x = x + _by_step(F.silu(gate) * gated, self.depth_gate_out[layer])
        return _by_step(x, self.depth_heads)


def _by_step(x: Tensor, matrices: Tensor) -> Tensor:
    """x [8, M, in], a matrix [out, in] a step -> [8, M, out]."""
    return torch.bmm(x, matrices.transpose(1, 2).to(x.dtype))
