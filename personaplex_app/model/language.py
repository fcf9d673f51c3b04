"""The language model with its streaming state: prime a row, advance all live rows by one position, save, restore.

In: prompt plans, the user's codes. Out: text tokens and the agent's codes.
Must not know: sound, text as letters, sessions.

Step p = n + i runs when user frame i arrives (n prompt frames); step n - 1 runs with the prefill.
Shapes: B slots, K = 17 streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex_app.controls import SamplingSettings
from personaplex_app.model import sampling as draws
from personaplex_app.model.config import AGENT, CODEBOOKS, USER
from personaplex_app.model.loading import Weights
from personaplex_app.model.prompts import PromptPlan
from personaplex_app.model.rebuild import Rebuilder
from personaplex_app.model.state import LanguageState, RowState
from personaplex_app.model.transformer import Span, rotation

SPAN_BUCKET_POSITIONS = 256


@dataclass(frozen=True)
class Advance:
    """What one step gives, a row per slot; rows that rested hold nothing of meaning.

    Attributes:
        text: int64 [B], the text token at the step's own position. next_text: int64 [B], chosen for the next one.
        codes: int64 [B, 8], the audible agent frame. healthy: bool [B], False where a logit was not finite.
    """

    text: Tensor
    next_text: Tensor
    codes: Tensor
    healthy: Tensor


class LanguageModel:
    """Weights and state joined; every method runs in inference mode, on whichever thread calls.

    Args:
        masked: attention over all rows at once behind a mask (a GPU's way) or row by row (a CPU's); None picks.
        trained_positions: where the model has learned a shorter past than its context, how short.
    """

    def __init__(
        self, weights: Weights, slots: int, masked: bool | None = None, trained_positions: int | None = None
    ) -> None:
        self.weights = weights
        self._masked = weights.device.type != "cpu" if masked is None else masked
        self.config = weights.config
        self._rebuilder = Rebuilder(weights.temporal, trained_positions) if trained_positions else None
        self.state = LanguageState(self.config, slots, weights.device, weights.dtype)

    @torch.inference_mode()
    def prime(self, slot: int, plan: PromptPlan, settings: SamplingSettings, seed: int) -> None:
        """Prefills the n prompt positions of a row in one pass and draws what stands at position n.

        The audible frame of this step is forced silence and is not returned.
        """
        state, temporal = self.state, self.weights.temporal
        state.reset(slot)
        state.set_sampling(slot, settings)
        state.sampling.begin(slot, seed)
        embeddings = self._prompt_embeddings(plan)
        hidden, logits = temporal.prefill(embeddings, state.kv[:, slot])
        if self._rebuilder:
            self._rebuilder.begin(slot, embeddings)
        state.set_position(slot, plan.frames)
        column = plan.after.to(self.weights.device).clone()
        noise = draws.uniform_noise(state.sampling.seed[slot : slot + 1], state.sampling.steps[slot : slot + 1])
        text = self._draw_text(logits[-1:], noise, slice(slot, slot + 1))
        column[0] = text[0]
        # Codebooks 1-7 of position n are the last prompt frame's, known already: only the first is drawn.
        column[AGENT.start] = self._draw_codes(hidden[-1:], text, noise, slice(slot, slot + 1), 1)[0, 0]
        state.column[slot] = column
        live = torch.zeros(state.slots, dtype=torch.bool, device=self.weights.device)
        live[slot] = True
        state.sampling.note_text(state.column[:, 0], live)

    def _prompt_embeddings(self, plan: PromptPlan) -> Tensor:
        given = 0 if plan.embeddings is None else len(plan.embeddings)
        x = self.weights.temporal.embed(plan.grid[:, given:].T.to(self.weights.device))
        if plan.embeddings is None:
            return x
        return torch.cat([plan.embeddings.to(x), x])

    @torch.inference_mode()
    def advance(self, user_codes: Tensor, live: list[bool]) -> Advance:
        """One position for every live row.

        Args:
            user_codes: int64 [B, 8], the frame each user just said. live: which rows take part; the others rest.
        """
        state = self.state
        mask = torch.tensor(live, device=self.weights.device)
        state.column[:, USER.start] = torch.where(mask, user_codes[:, 0], state.column[:, USER.start])
        x = self.weights.temporal.embed(state.column)
        hidden, logits = self.weights.temporal.step(x, state.kv, self._span(live))
        noise = draws.uniform_noise(state.sampling.seed, state.sampling.steps)
        text = self._draw_text(logits, noise, slice(None))
        codes = self._draw_codes(hidden, text, noise, slice(None), CODEBOOKS)
        result = Advance(
            text=state.column[:, 0].clone(),
            next_text=text,
            codes=torch.cat([state.column[:, 1:2], codes[:, 1:]], dim=1),
            healthy=torch.isfinite(logits.sum(-1)) & torch.isfinite(hidden.sum(-1)),
        )
        fed = state.column.clone() if self._rebuilder else None
        column = torch.cat([text[:, None], codes, state.column[:, USER.start : USER.start + 1], user_codes[:, 1:]], 1)
        state.column.copy_(torch.where(mask[:, None], column, state.column))
        state.sampling.note_text(text, mask)
        state.positions += mask
        for slot, on in enumerate(live):
            state.position_host[slot] += on
            if on and fed is not None:
                self._rebuild(slot, fed[slot])
        return result

    def _rebuild(self, slot: int, fed: Tensor) -> None:
        assert self._rebuilder is not None
        state, position = self.state, self.state.position_host[slot]
        run = state.sampling.padding_run[slot]
        shorter = self._rebuilder.after_step(slot, fed, position, run, state.kv[:, slot])
        if shorter != position:
            state.set_position(slot, shorter)

    def _span(self, live: list[bool]) -> Span:
        state, config = self.state, self.config
        cos, sin = rotation(state.positions, config.head_dim, config.max_period)
        places = state.positions % config.context
        rows = [
            (slot, position % config.context, min(position + 1, config.context))
            for slot, position in enumerate(state.position_host)
            if live[slot]
        ]
        mask = None
        if self._masked:
            longest = max((length for _, _, length in rows), default=1)
            reach = min(-(-longest // SPAN_BUCKET_POSITIONS) * SPAN_BUCKET_POSITIONS, config.context)
            mask = (torch.arange(reach, device=places.device) <= state.positions[:, None])[:, None, None]
        return Span(cos[:, None, None], sin[:, None, None], places, rows, mask)

    def _draw_text(self, logits: Tensor, noise: Tensor, rows: slice) -> Tensor:
        state, params = self.state, self.state.sampling
        settings = state.settings[rows]
        if any(row.repetition_penalty != 1.0 for row in settings):
            logits = draws.penalize(logits, params.recent[rows], params.window[rows], params.penalty[rows])
        widest = draws.widest_candidates([(s.text_temperature, s.text_top_k) for s in settings], self.config.text_card)
        return draws.draw(logits, params.text_temperature[rows], params.text_top_k[rows], noise[:, 0], widest)

    def _draw_codes(self, hidden: Tensor, text: Tensor, noise: Tensor, rows: slice, count: int) -> Tensor:
        params = self.state.sampling
        temperature, top_k = params.audio_temperature[rows], params.audio_top_k[rows]
        settings = [(s.audio_temperature, s.audio_top_k) for s in self.state.settings[rows]]
        widest = draws.widest_candidates(settings, self.config.audio_card)

        def choose(codebook: int, logits: Tensor) -> Tensor:
            return draws.draw(logits, temperature, top_k, noise[:, 1 + codebook], widest)

        return self.weights.depth(hidden, text, choose, count)

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
