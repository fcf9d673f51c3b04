"""The codec's two directions as lists of launches, each over a state of its own.

In: sound or codes. Out: codes or sound, in a place that the next frame overwrites.
Must not know: who calls, when a row joins or leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex_app.model.fast.mimi_codes import Search, spread_codes
from personaplex_app.model.fast.mimi_products import Workshop, make_sound
from personaplex_app.model.fast.mimi_state import State, Track
from personaplex_app.model.fast.mimi_transformer import TransformerStep
from personaplex_app.model.fast.mimi_weights import Block, MimiWeights, Product, Transformer


def length_after(blocks: tuple[Block, ...], time: int) -> int:
    """How many columns leave the blocks when `time` enter."""
    for product in (block.second or block.first for block in blocks):
        time = time // product.stride * product.spread
    return time


@dataclass(frozen=True)
class _Stage:
    """A product from a track to its raw sums, to the next track after ELU, or to both."""

    product: Product
    source: Track
    raw: Tensor | None
    target: Track | None
    residual: Tensor | None = None


class Net:
    """Convolutions and residual blocks, from the `source` track to raw sums in `out`, or after ELU to the `end` track.

    Args:
        time: columns of a frame that enter.
        out: [slots, time out, width out].
        end_past: past columns of the `end` track.
    """

    def __init__(
        self, blocks: tuple[Block, ...], state: State, time: int, *, out: Tensor | None = None, end_past: int = 0
    ) -> None:
        self._state = state
        self._stages: list[_Stage] = []
        self.source = source = state.track(blocks[0].first.past, time, blocks[0].first.width)
        raw: Tensor | None = None
        for block, follows in zip(blocks, [*blocks[1:], None], strict=True):
            residual = raw if block.second is not None else None
            if block.second is not None:
                middle = state.track(block.second.past, source.time, block.first.outputs)
                self._stages.append(_Stage(block.first, source, None, middle))
                source = middle
            product = block.second or block.first
            time = length_after((block,), source.time)
            raw = out
            if follows is not None:
                raw = (
                    None
                    if follows.second is None
                    else torch.empty(state.slots, time, product.outputs, device=state.device)
                )
            target = None
            if follows is not None or out is None:
                target = state.track(end_past if follows is None else follows.first.past, time, product.outputs)
            self._stages.append(_Stage(product, source, raw, target, residual))
            source = target or source
        self.end = source

    def run(self, b: int, workshop: Workshop) -> None:
        """Launches all stages for the first b rows."""
        for stage in self._stages:
            workshop.multiply(
                stage.product,
                self._state.whole(stage.source)[:b],
                out=None if stage.raw is None else stage.raw[:b],
                active=None if stage.target is None else self._state.fresh(stage.target)[:b],
                residual=None if stage.residual is None else stage.residual[:b],
            )


def _build(state: State, transformer: Transformer) -> None:
    width = transformer.layers[0].join.width // transformer.heads
    state.build(len(transformer.layers), transformer.heads, transformer.context, width)


class EncodeStep:
    """From frames to codes, for `slots` rows."""

    def __init__(self, weights: MimiWeights, slots: int) -> None:
        encoder, device = weights.encoder, weights.books.device
        steps = length_after(encoder.blocks, weights.frame_samples)
        self.state = State(slots, device)
        self._workshop = Workshop(device)
        self._transformer = TransformerStep(encoder.transformer, self.state, self._workshop, steps)
        self._net = Net(encoder.blocks, self.state, weights.frame_samples, out=self._transformer.tokens)
        self._project = encoder.project
        self._ready = self.state.track(encoder.project.past, steps, encoder.project.width)
        self._search = Search(weights.books, weights.semantic, slots)
        _build(self.state, encoder.transformer)

    def run(self, frames: Tensor, live: Tensor) -> Tensor:
        """float32 [b, samples] and bool [b] to int64 [b, codebooks]."""
        b, state = live.shape[0], self.state
        state.fresh(self._net.source)[:b, :, 0].copy_(frames)
        self._net.run(b, self._workshop)
        self._transformer.run(live, state.fresh(self._ready)[:b])
        columns = state.whole(self._ready)[:b]
        self._workshop.multiply(self._project, columns, out=self._search.latents[:b], offsets=state.offsets)
        codes = self._search.run(b)
        state.move_on(live, self._ready.time)
        return codes


class DecodeStep:
    """From codes to frames, for `slots` rows."""

    def __init__(self, weights: MimiWeights, slots: int) -> None:
        self._weights = decoder = weights.decoder
        device = weights.books.device
        steps, width = decoder.spread.shape[0] // 2, decoder.books.shape[2]
        self.state = State(slots, device)
        self._workshop = Workshop(device)
        self._latents = self.state.track(1, 1, width)
        self._transformer = TransformerStep(decoder.transformer, self.state, self._workshop, steps)
        self._last = decoder.blocks[-1].first
        self._net = Net(decoder.blocks[:-1], self.state, steps, end_past=self._last.past)
        self._sound = torch.zeros(slots, weights.frame_samples, device=device)
        _build(self.state, decoder.transformer)

    def run(self, codes: Tensor, live: Tensor) -> Tensor:
        """int64 [b, codebooks] and bool [b] to float32 [b, samples]."""
        b, state, decoder = live.shape[0], self.state, self._weights
        tokens = self._transformer.tokens[:b]
        spread_codes(codes.contiguous(), decoder.books, decoder.spread, state.whole(self._latents)[:b], tokens)
        self._transformer.run(live, state.fresh(self._net.source)[:b])
        self._net.run(b, self._workshop)
        make_sound(self._last, state.whole(self._net.end)[:b], self._sound[:b])
        state.move_on(live, tokens.shape[1])
        return self._sound[:b]
