"""One step of the language model in a few hundred launches, for the first b rows; a CUDA graph replays it.

In: weights, the rows' state, their past in blocks, the users' codes. Out: `Advance`; the state is advanced.
Must not know: sound, prompts, sessions. The arithmetic is `model/step.py`'s; sums are taken in another order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from personaplex_app.model import sampling as draws
from personaplex_app.model.config import CODEBOOKS, RMS_NORM_EPS
from personaplex_app.model.fast.attention_kernels import AttentionRoom, attend, rotate_and_store
from personaplex_app.model.fast.blocks import BLOCK_POSITIONS, PagedPast
from personaplex_app.model.fast.depth_kernels import depth_attend
from personaplex_app.model.fast.draw_kernels import MOST_TILED_CANDIDATES, draw_code, draw_text
from personaplex_app.model.fast.linear_kernels import linear_rows
from personaplex_app.model.fast.row_kernels import embed, finish
from personaplex_app.model.loading import Weights
from personaplex_app.model.sampling import SamplingRows
from personaplex_app.model.state import Rows
from personaplex_app.model.step import Advance
from personaplex_app.model.transformer import Layer


@dataclass(frozen=True)
class FastShape:
    """What a recorded step depends on besides tensors.

    Attributes:
        rows: the first so many rows are computed, live or not. text_candidates: of the widest row; more than 32 draws
            from all. greedy_audio: no row draws its codes. penalized: some row has a repetition penalty.
    """

    rows: int
    text_candidates: int
    greedy_audio: bool
    penalized: bool


class FastStep:
    """Weights, state and scratch of the step."""

    def __init__(self, weights: Weights, state: Rows, past: PagedPast, user_codes: Tensor, live: Tensor) -> None:
        config = weights.config
        self.weights = weights
        self.state = state
        self.past = past
        self.user_codes = user_codes
        self.live = live
        device = weights.device
        self._room = AttentionRoom(state.slots, config.heads, config.head_dim, device)
        steps = torch.arange(config.head_dim // 2, device=device, dtype=torch.float32)
        self._frequencies = torch.exp(steps * (-math.log(config.max_period) * 2 / config.head_dim))

    def compute(self, shape: FastShape) -> Advance:
        """One position for every live row among the first `shape.rows`."""
        temporal, state, b = self.weights.temporal, self.state, shape.rows
        user_codes, live = self.user_codes[:b], self.live[:b]
        text_table, audio_table = temporal.text_emb.weight, temporal.audio_emb.weight
        fed, x, cos, sin = embed(
            state.column, user_codes, live, state.positions, self._frequencies, text_table, audio_table
        )
        for index, layer in enumerate(temporal.layers):
            x = self._layer(cast("Layer", layer), index, x, cos, sin)
        alpha = temporal.out_norm.alpha
        logits = linear_rows(x, temporal.text_linear.weight, alpha=alpha, eps=RMS_NORM_EPS)
        inputs = linear_rows(x, self.weights.depth.in_proj.weight, alpha=alpha, eps=RMS_NORM_EPS)
        inputs = inputs.view(b, CODEBOOKS, -1)
        text, first = self._draw_text(logits, inputs, shape, _first(state.sampling, b))
        codes = self._draw_codes(first, inputs, shape)
        heard = finish(text, codes, fed, user_codes, live, state.column, state.positions, state.sampling)
        healthy = torch.isfinite(logits.sum(-1)) & torch.isfinite(x.sum(-1))
        return Advance(text=fed[:, 0], next_text=text, codes=heard, healthy=healthy, fed=fed)

    def _layer(self, layer: Layer, index: int, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        config = self.weights.config
        projected = linear_rows(x, layer.in_proj.weight, alpha=layer.norm1.alpha, eps=RMS_NORM_EPS)
        attended = attend(
            projected.view(len(x), 3, config.heads, -1),
            self.past.table,
            self.state.positions,
            self.live,
            cos,
            sin,
            self._room,
            layer=index,
            layers=config.layers,
            context=config.context,
            block_positions=BLOCK_POSITIONS,
            cache=self.past.pool.cache,
        )
        x = linear_rows(attended, layer.out_proj.weight, residual=x)
        return _feed_forward(layer, x)

    def prefill(self, x: Tensor, kv: Tensor, first: int) -> Tensor:
        """T known positions of one row, at ring places `first` .. `first + T - 1`.

        Args:
            x: [T, D] embeddings. kv: [L, 2, H, room, E], written.
        Returns:
            [T, D] before the last norm.
        """
        config, count = self.weights.config, len(x)
        positions = torch.arange(first, first + count, device=x.device)
        angles = positions[:, None] * self._frequencies
        cos, sin = torch.cos(angles), torch.sin(angles)
        mask = positions[:, None] >= torch.arange(first + count, device=x.device)
        for layer, past in zip(self.weights.temporal.layers, kv, strict=True):
            layer = cast("Layer", layer)
            projected = linear_rows(x, layer.in_proj.weight, alpha=layer.norm1.alpha, eps=RMS_NORM_EPS)
            query = rotate_and_store(projected.view(count, 3, config.heads, -1), cos, sin, past, first)
            keys, values = past[:, None, :, : first + count]
            attended = F.scaled_dot_product_attention(query[None], keys, values, attn_mask=mask)
            attended = attended[0].transpose(0, 1).reshape(count, -1)
            x = _feed_forward(layer, linear_rows(attended, layer.out_proj.weight, residual=x))
        return x

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden [b, D] after the last norm and text logits [b, V], from `prefill`'s [b, D]."""
        temporal = self.weights.temporal
        hidden = temporal.out_norm(x)
        return hidden, linear_rows(hidden, temporal.text_linear.weight)

    def draw_first(self, slot: int, hidden: Tensor, logits: Tensor, shape: FastShape) -> tuple[Tensor, Tensor]:
        """The text token and the first code that stand at the position after a row's prompt, int64 [1] each.

        Args:
            hidden: [1, D] after the last norm. logits: [1, V].
        """
        depth = self.weights.depth
        rows = SamplingRows(**{name: value[slot : slot + 1] for name, value in vars(self.state.sampling).items()})
        inputs = linear_rows(hidden, depth.in_proj.weight).view(1, CODEBOOKS, -1)
        text, x = self._draw_text(logits, inputs, shape, rows)
        codes = torch.empty((1, CODEBOOKS), dtype=torch.int64, device=x.device)
        past = x.new_empty((depth.config.depth_layers, 2, 1, CODEBOOKS, x.shape[1]))
        for index, layer in enumerate(cast("torch.nn.ModuleList", depth.steps[0])):
            x = self._depth_layer(cast("Layer", layer), x, past[index], 0)
        head = cast("torch.nn.Linear", depth.heads[0])
        draw_code(linear_rows(x, head.weight), rows, 0, codes, inputs, None, shape.greedy_audio)
        return text, codes[:, 0]

    def _draw_text(self, logits: Tensor, inputs: Tensor, shape: FastShape, rows: SamplingRows) -> tuple[Tensor, Tensor]:
        table = self.weights.depth.text_emb.weight
        if shape.text_candidates <= MOST_TILED_CANDIDATES:
            return draw_text(logits, rows, shape.text_candidates, shape.penalized, inputs, table)
        if shape.penalized:
            logits = draws.penalize(logits, rows.recent, rows.window, rows.penalty)
        noise = draws.uniform_noise(rows.seed, rows.steps)[:, 0]
        text = draws.draw(logits, rows.text_temperature, rows.text_top_k, noise, logits.shape[-1])
        return text, inputs[:, 0] + table[text]

    def _draw_codes(self, x: Tensor, inputs: Tensor, shape: FastShape) -> Tensor:
        depth, b = self.weights.depth, shape.rows
        rows = _first(self.state.sampling, b)
        codes = torch.empty((b, CODEBOOKS), dtype=torch.int64, device=x.device)
        past = x.new_empty((depth.config.depth_layers, 2, b, CODEBOOKS, x.shape[1]))
        following: Tensor | None = x
        for step in range(CODEBOOKS):
            assert following is not None
            x = following
            for index, layer in enumerate(cast("torch.nn.ModuleList", depth.steps[step])):
                x = self._depth_layer(cast("Layer", layer), x, past[index], step)
            logits = linear_rows(x, cast("torch.nn.Linear", depth.heads[step]).weight)
            table = None if step + 1 == CODEBOOKS else cast("torch.nn.Embedding", depth.audio_emb[step]).weight
            following = draw_code(logits, rows, step, codes, inputs, table, shape.greedy_audio)
        return codes

    def _depth_layer(self, layer: Layer, x: Tensor, past: Tensor, step: int) -> Tensor:
        projected = linear_rows(x, layer.in_proj.weight, alpha=layer.norm1.alpha, eps=RMS_NORM_EPS)
        heads = self.weights.config.depth_heads
        return _feed_forward(layer, depth_attend(projected, past, layer.out_proj.weight, x, step, heads))


def _feed_forward(layer: Layer, x: Tensor) -> Tensor:
    gated = linear_rows(x, layer.gate_in.weight, alpha=layer.norm2.alpha, eps=RMS_NORM_EPS, gated=True)
    return linear_rows(gated, layer.gate_out.weight, residual=x)


def _first(rows: SamplingRows, b: int) -> SamplingRows:
    """The first b rows' parameters."""
    return SamplingRows(**{name: value[:b] for name, value in vars(rows).items()})
