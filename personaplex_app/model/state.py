"""The streaming state of the language model: tensors with a row per slot, none hidden in modules.

In: sizes and a device. Out: `LanguageState`, and `RowState` copies of single rows.
Must not know: weights, audio, sessions.

Shapes: L layers, B slots, H heads, C context, E head width, K = 17 streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from personaplex_app.controls import SamplingSettings
from personaplex_app.model.config import AGENT, STREAMS, LanguageConfig
from personaplex_app.model.prompts import PromptPlan
from personaplex_app.model.rebuild import RowRebuild
from personaplex_app.model.sampling import SamplingRows


@dataclass(frozen=True)
class RowState:
    """A copy of one row, of its used length only; whoever holds it may restore it into any row.

    Attributes:
        kv: [L, 2, H, used, E]. column: int64 [K]. sampling: name -> value of the row, as `SamplingRows` names them.
        position: the next position to feed. settings: what the row's sampling was set from.
        rebuild: what a model with a short trained past remembers to rebuild from, or None.
    """

    kv: Tensor
    column: Tensor
    sampling: dict[str, Tensor]
    position: int
    settings: SamplingSettings
    rebuild: RowRebuild | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """All that takes memory."""
        return [self.kv, self.column, *self.sampling.values(), *(self.rebuild.tensors if self.rebuild else ())]

    @property
    def bytes(self) -> int:
        """Memory that this copy holds."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors)

    def moved(self, move: Callable[[Tensor], Tensor]) -> RowState:
        """The same row with every tensor put elsewhere."""
        return replace(
            self,
            kv=move(self.kv),
            column=move(self.column),
            sampling={name: move(value) for name, value in self.sampling.items()},
            rebuild=self.rebuild.moved(move) if self.rebuild else None,
        )


class Rows:
    """All of the rows' state but their past.

    Attributes:
        column: int64 [B, K], the tokens at each row's next position: text and agent chosen, delayed user codes known,
            the user's first codebook still open. With delays of at most one frame this is the whole token ring.
        positions: int64 [B] on the device; `position_host` is the same as Python integers.
        sampling: the rows' sampling parameters and random state; `settings` is what they were set from.
    """

    def __init__(self, config: LanguageConfig, slots: int, device: torch.device) -> None:
        self.config = config
        self.slots = slots
        self.column = torch.zeros((slots, STREAMS), device=device, dtype=torch.int64)
        self.positions = torch.zeros(slots, device=device, dtype=torch.int64)
        self.position_host = [0] * slots
        self.sampling = SamplingRows.empty(slots, device)
        self.settings = [SamplingSettings().greedy()] * slots
        for slot in range(slots):
            self.set_sampling(slot, self.settings[slot])

    def used(self, slot: int) -> int:
        """Ring places that hold something."""
        return min(self.position_host[slot], self.config.context)

    def set_position(self, slot: int, position: int) -> None:
        """Places a row; the device and the host agree."""
        self.positions[slot] = position
        self.position_host[slot] = position

    def set_sampling(self, slot: int, settings: SamplingSettings) -> None:
        """Settings that hold from the row's next step on."""
        self.settings[slot] = settings
        self.sampling.apply(slot, settings)

    def begin(self, slot: int, settings: SamplingSettings, seed: int) -> None:
        """A new conversation in a row that was reset: its sampling, its seed, nothing drawn."""
        self.set_sampling(slot, settings)
        self.sampling.begin(slot, seed)

    def stand_after(self, slot: int, plan: PromptPlan, text: Tensor, code: Tensor) -> None:
        """The row stands behind its prompt.

        Args:
            text, code: int64 [1], the text token and the first agent code just drawn. Codebooks 1-7 of that position
                are the last prompt frame's, known already.
        """
        self.set_position(slot, plan.frames)
        column = plan.after.to(self.column.device).clone()
        column[0], column[AGENT.start] = text[0], code[0]
        self.column[slot] = column
        live = torch.zeros(self.slots, dtype=torch.bool, device=self.column.device)
        live[slot] = True
        self.sampling.note_text(self.column[:, 0], live)

    def reset(self, slot: int) -> None:
        """Back to what a fresh row holds."""
        self.column[slot].zero_()
        self.set_position(slot, 0)
        self.set_sampling(slot, SamplingSettings().greedy())
        self.sampling.begin(slot, 0)

    def save_with(self, slot: int, kv: Tensor, rebuild: RowRebuild | None = None) -> RowState:
        """Copies one row; its past [L, 2, H, used, E] is given."""
        rows = {field.name: getattr(self.sampling, field.name)[slot].clone() for field in fields(SamplingRows)}
        return RowState(kv, self.column[slot].clone(), rows, self.position_host[slot], self.settings[slot], rebuild)

    def take(self, slot: int, row: RowState) -> None:
        """Puts all but the past of a copy into a row."""
        self.column[slot] = row.column
        self.set_position(slot, row.position)
        self.settings[slot] = row.settings
        for name, value in row.sampling.items():
            getattr(self.sampling, name)[slot] = value


class LanguageState(Rows):
    """All that a step reads and writes.

    Attributes:
        kv: [L, B, 2, H, C, E] ring of keys and values; position p stands at place p % C.
    """

    def __init__(self, config: LanguageConfig, slots: int, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(config, slots, device)
        shape = (config.layers, slots, 2, config.heads, config.context, config.head_dim)
        self.kv = torch.zeros(shape, device=device, dtype=dtype)

    def reset(self, slot: int) -> None:
        """Back to what a fresh state holds."""
        self.kv[:, slot, :, :, : self.used(slot)].zero_()
        super().reset(slot)

    def save(self, slot: int, rebuild: RowRebuild | None = None) -> RowState:
        """Copies one row."""
        return self.save_with(slot, self.kv[:, slot, :, :, : self.used(slot)].clone(), rebuild)

    def restore(self, slot: int, row: RowState) -> None:
        """Puts a copy into a row, which then goes on as the original would have."""
        self.reset(slot)  # nothing of a longer past may stay behind: where it is not finite, even a mask would read it
        self.kv[:, slot, :, :, : row.kv.shape[3]] = row.kv
        self.take(slot, row)
