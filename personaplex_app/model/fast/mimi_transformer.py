"""The codec's transformers, five launches a layer.

In: tokens [b, T, width]. Out: columns.
Must not know: convolutions, codes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from personaplex_app.model.fast import mimi_plan as plan
from personaplex_app.model.fast.codec_kernels_attention import ring_attention
from personaplex_app.model.fast.mimi_products import Workshop
from personaplex_app.model.fast.mimi_state import State
from personaplex_app.model.fast.mimi_weights import Transformer

_WARPS = 8


class TransformerStep:
    """One transformer over the rings and offsets of a State; scratch memory for `slots` rows of `steps` positions."""

    def __init__(self, weights: Transformer, state: State, workshop: Workshop, steps: int) -> None:
        self._weights = weights
        self._state = state
        self._workshop = workshop
        width = weights.layers[0].join.outputs
        entering = width if weights.enter is None else weights.enter.width
        self.tokens = self._room(steps, entering)
        self._x = self.tokens if weights.enter is None else self._room(steps, width)
        self._projected = self._room(steps, 3 * width)
        self._attended = self._room(steps, width)
        self._hidden = self._room(steps, weights.layers[0].widen.outputs)

    def _room(self, steps: int, width: int) -> Tensor:
        return torch.empty(self._state.slots, steps, width, device=self._state.device)

    def run(self, live: Tensor, out: Tensor) -> None:
        """From the first b rows of `tokens` to out, [b, T, width out]; live: bool [b]."""
        b, multiply = live.shape[0], self._workshop.multiply
        x, hidden = self._x[:b], self._hidden[:b]
        if self._weights.enter is not None:
            multiply(self._weights.enter, self.tokens[:b], out=x)
        for index, layer in enumerate(self._weights.layers):
            multiply(layer.project, x, out=self._projected[:b])
            self._attend(index, live)
            multiply(layer.join, self._attended[:b], out=x, residual=x)
            multiply(layer.widen, x, out=hidden)
            last = index == len(self._weights.layers) - 1 and self._weights.leave is None
            multiply(layer.narrow, hidden, out=out if last else x, residual=x)
        if self._weights.leave is not None:
            multiply(self._weights.leave, x, out=out)

    def _attend(self, layer: int, live: Tensor) -> None:
        rings = self._state.rings[:, layer]
        heads, context, width = rings.shape[2:]
        steps = self._attended.shape[1]
        ring_attention[(live.shape[0] * steps, heads)](
            self._projected,
            rings,
            self._state.offsets,
            live,
            self._weights.rates,
            self._attended,
            heads,
            context,
            rings.stride(0),
            width**-0.5,
            STEPS=steps,
            D=width,
            BLOCK_D=plan.power_of_two(width),
            BLOCK=min(plan.KEYS_A_TURN, plan.power_of_two(context)),
            num_warps=_WARPS,
        )
