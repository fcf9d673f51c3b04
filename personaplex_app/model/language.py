"""The language model with its streaming state: prime a row, advance all live rows by one position, save, restore.

In: prompt plans, the user's codes. Out: text tokens and the agent's codes.
Must not know: sound, text as letters, sessions.

Step p = n + i runs when user frame i arrives (n prompt frames); step n - 1 runs with the prefill.
Shapes: B slots, K = 17 streams.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from personaplex_app.controls import SamplingSettings
from personaplex_app.model import sampling as draws
from personaplex_app.model.config import CODEBOOKS
from personaplex_app.model.graphs import GraphRecorder
from personaplex_app.model.loading import Weights
from personaplex_app.model.prompts import PromptPlan
from personaplex_app.model.rebuild import Rebuilder
from personaplex_app.model.state import LanguageState, RowState
from personaplex_app.model.step import Advance, Row, StepShape, compute_step, draw_codes, draw_text, shape_for
from personaplex_app.model.streamed_layers import StreamedLayers
from personaplex_app.model.transformer import TemporalTransformer


def prompt_embeddings(temporal: TemporalTransformer, plan: PromptPlan) -> Tensor:
    """What a prompt feeds, [n, D]: the given embeddings first, then those of its columns."""
    given = 0 if plan.embeddings is None else len(plan.embeddings)
    x = temporal.embed(plan.grid[:, given:].T.to(temporal.text_emb.weight.device))
    if plan.embeddings is None:
        return x
    return torch.cat([plan.embeddings.to(x), x])


class LanguageModel:
    """Weights and state joined; every method runs in inference mode, on whichever thread calls.

    Args:
        masked: attention over all rows at once behind a mask (a GPU's way) or row by row (a CPU's); None picks.
        trained_positions: where the model has learned a shorter past than its context, how short.
        recorded: replay steps as CUDA graphs; None does so on a GPU that holds all layers. Copies that run ahead into
            the next step fit no graph.
    """

    def __init__(
        self,
        weights: Weights,
        slots: int,
        masked: bool | None = None,
        trained_positions: int | None = None,
        recorded: bool | None = None,
    ) -> None:
        self.weights = weights
        self.config = weights.config
        on_gpu = weights.device.type != "cpu"
        self._masked = on_gpu if masked is None else masked
        self._rebuilder = Rebuilder(weights.temporal, trained_positions) if trained_positions else None
        self.state = LanguageState(self.config, slots, weights.device, weights.dtype)
        self._user_codes = torch.zeros((slots, CODEBOOKS), dtype=torch.int64, device=weights.device)
        self._live = torch.zeros(slots, dtype=torch.bool, device=weights.device)
        self._rows: list[Row] = []
        streams = isinstance(weights.temporal.layers, StreamedLayers)
        record = on_gpu and not streams if recorded is None else recorded
        self._recorder = GraphRecorder(self._compute, self._at_rest) if record else None

    def _compute(self, shape: StepShape) -> Advance:
        return compute_step(self.weights, self.state, self._user_codes, self._live, shape, self._rows)

    def _at_rest(self) -> Callable[[], None]:
        """No row live: a step then leaves every row's future as it is."""
        live = self._live.clone()
        self._live.zero_()

        def undo() -> None:
            self._live.copy_(live)

        return undo

    @torch.inference_mode()
    def record(self, settings: list[SamplingSettings]) -> None:
        """Records the steps of all lengths for these settings, so that no talk waits for it. Does nothing on a CPU."""
        if self._recorder is None:
            return
        every = [shape_for(self.config, [at], [one], True) for one in settings for at in range(self.config.context)]
        for shape in dict.fromkeys(every):
            self._recorder.record(shape)

    @torch.inference_mode()
    def prime(self, slot: int, plan: PromptPlan, settings: SamplingSettings, seed: int) -> None:
        """Prefills the n prompt positions of a row in one pass and draws what stands at position n.

        The audible frame of this step is forced silence and is not returned.
        """
        state, temporal = self.state, self.weights.temporal
        state.reset(slot)
        state.begin(slot, settings, seed)
        embeddings = prompt_embeddings(temporal, plan)
        hidden, logits = temporal.prefill(embeddings, state.kv[:, slot])
        if self._rebuilder:
            self._rebuilder.begin(slot, embeddings)
        row = slice(slot, slot + 1)
        shape = shape_for(self.config, [plan.frames], [settings], self._masked)
        noise = draws.uniform_noise(state.sampling.seed[row], state.sampling.steps[row])
        text = draw_text(state, logits[-1:], noise, row, shape)
        codes = draw_codes(self.weights, state, hidden[-1:], text, noise, row, shape, 1)
        state.stand_after(slot, plan, text, codes[:, 0])

    @torch.inference_mode()
    def advance(self, user_codes: Tensor, live: list[bool]) -> Advance:
        """One position for every live row.

        Args:
            user_codes: int64 [B, 8], the frame each user just said. live: which rows take part; the others rest.
        Returns:
            tensors that on a GPU the next call overwrites.
        """
        positions = self.state.position_host
        shape = shape_for(
            self.config, [at for at, on in zip(positions, live, strict=True) if on], self.state.settings, self._masked
        )
        self._user_codes.copy_(user_codes)
        self._live.copy_(torch.tensor(live))
        context = self.config.context
        self._rows = [(i, at % context, min(at + 1, context)) for i, at in enumerate(positions) if live[i]]
        result = self._recorder.run(shape) if self._recorder else self._compute(shape)
        for slot, on in enumerate(live):
            positions[slot] += on
            if on and self._rebuilder:
                self._rebuild(slot, result.fed[slot])
        return result

    def _rebuild(self, slot: int, fed: Tensor) -> None:
        assert self._rebuilder is not None
        state, position = self.state, self.state.position_host[slot]
        run = state.sampling.padding_run[slot]
        shorter = self._rebuilder.after_step(slot, fed, position, run, state.kv[:, slot])
        if shorter != position:
            state.set_position(slot, shorter)

    def set_sampling(self, slot: int, settings: SamplingSettings) -> None:
        """New settings for a row, from its next step on."""
        self.state.set_sampling(slot, settings)

    @torch.inference_mode()
    def save(self, slot: int) -> RowState:
        """A copy of a row, to restore here or in another row later."""
        return self.state.save(slot, self._rebuilder.save(slot) if self._rebuilder else None)

    @torch.inference_mode()
    def restore(self, slot: int, row: RowState) -> None:
        """Puts a copy back; the row goes on as the original did."""
        self.state.restore(slot, row)
        if self._rebuilder:
            self._rebuilder.restore(slot, row.rebuild)

    @torch.inference_mode()
    def reset(self, slot: int) -> None:
        """A row as new."""
        self.state.reset(slot)
        if self._rebuilder:
            self._rebuilder.forget(slot)
