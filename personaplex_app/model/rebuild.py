"""Keeps a model awake that was trained on fewer positions than its window: the row is rebuilt beside the running one.

In: the prompt's embeddings, every column that was fed, the row's cache. Out: a shorter past in the row, prompt first,
then the last frames, swapped in while the persona is silent. A piece a step, so that no step is late.
Must not know: sound, sessions. Used where a checkpoint's `trained_positions` says so; PersonaPlex itself needs none.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from personaplex_app.model.transformer import TemporalTransformer

KEPT_FRAMES = 90  # of the talk, after the prompt
BEGIN_BEFORE_POSITIONS = 112  # of the trained length
FORCE_BEFORE_POSITIONS = 8
PIECE_POSITIONS = 24
QUIET_FRAMES = 8


@dataclass
class RowRebuild:
    """One row's memory of what to rebuild from, and the rebuild that may be under way.

    Attributes:
        prompt: [n, D] embeddings of the prompt. recent: last columns fed, int64 [K] each.
        wanted: [m, D] embeddings that the new past consists of, growing while the talk goes on.
        shadow: [L, 2, H, room, E] the new past's keys and values, `done` positions of it filled.
    """

    prompt: Tensor
    recent: deque[Tensor] = field(default_factory=lambda: deque(maxlen=KEPT_FRAMES))
    wanted: Tensor | None = None
    shadow: Tensor | None = None
    done: int = 0

    def copied(self) -> RowRebuild:
        """A copy that goes its own way; tensors that later steps would write to are cloned."""
        twin = copy.copy(self)
        twin.recent = self.recent.copy()
        twin.shadow = None if self.shadow is None else self.shadow.clone()
        return twin

    @property
    def tensors(self) -> list[Tensor]:
        """All that takes memory."""
        return [self.prompt, *self.recent, *(part for part in (self.wanted, self.shadow) if part is not None)]

    def moved(self, move: Callable[[Tensor], Tensor]) -> RowRebuild:
        """A copy whose tensors are put elsewhere."""
        twin = copy.copy(self)
        twin.prompt, twin.recent = move(self.prompt), deque(map(move, self.recent), maxlen=KEPT_FRAMES)
        twin.wanted = None if self.wanted is None else move(self.wanted)
        twin.shadow = None if self.shadow is None else move(self.shadow)
        return twin


class Rebuilder:
    """Rebuilds of all rows.

    Args:
        trained_positions: how long a past the model has learned to bear.
    """

    def __init__(self, temporal: TemporalTransformer, trained_positions: int) -> None:
        self._temporal = temporal
        self._trained = trained_positions
        self._rows: dict[int, RowRebuild] = {}

    def begin(self, slot: int, prompt: Tensor) -> None:
        """A new conversation with this prompt, [n, D] embeddings."""
        self._rows[slot] = RowRebuild(prompt)

    def forget(self, slot: int) -> None:
        """The row's conversation is over."""
        self._rows.pop(slot, None)

    def save(self, slot: int) -> RowRebuild | None:
        """A copy of the row's memory."""
        row = self._rows.get(slot)
        return None if row is None else row.copied()

    def restore(self, slot: int, row: RowRebuild | None) -> None:
        """Puts a copy back."""
        self.forget(slot)
        if row is not None:
            device = self._temporal.text_emb.weight.device
            self._rows[slot] = row.copied().moved(lambda tensor: tensor.to(device))

    def after_step(self, slot: int, column: Tensor, position: int, padding_run: Tensor, kv_row: Tensor) -> int:
        """Notes the column just fed, does a piece of work, swaps when it may.

        Args:
            column: int64 [K]. position: the row's next position. padding_run: the row's run of padding tokens, [].
            kv_row: [L, 2, H, C, E], written by a swap.
        Returns:
            the row's next position: shorter after a swap, else unchanged.
        """
        row = self._rows.get(slot)
        if row is None:
            return position
        row.recent.append(column.clone())
        if row.wanted is None:
            if position >= self._trained - BEGIN_BEFORE_POSITIONS:
                self._start(row, kv_row)
            return position
        row.wanted = torch.cat([row.wanted, self._temporal.embed(column)[None]])
        if not self._work(row):
            return position
        if padding_run < QUIET_FRAMES and position < self._trained - FORCE_BEFORE_POSITIONS:
            return position
        return self._swap(row, kv_row, position)

    def _start(self, row: RowRebuild, kv_row: Tensor) -> None:
        row.wanted = torch.cat([row.prompt, self._temporal.embed(torch.stack(list(row.recent)))])
        room = min(len(row.wanted) + BEGIN_BEFORE_POSITIONS, kv_row.shape[3])
        row.shadow = kv_row.new_zeros((*kv_row.shape[:3], room, kv_row.shape[4]))
        row.done = 0

    def _work(self, row: RowRebuild) -> bool:
        """One piece; True when the new past has caught up with the talk."""
        assert row.wanted is not None and row.shadow is not None
        piece = row.wanted[row.done : row.done + PIECE_POSITIONS]
        self._temporal.prefill(piece, row.shadow, first=row.done)
        row.done += len(piece)
        return row.done == len(row.wanted)

    def _swap(self, row: RowRebuild, kv_row: Tensor, position: int) -> int:
        """The new past stands in the row, and nothing of the old one behind it."""
        assert row.shadow is not None
        kv_row[:, :, :, : row.done] = row.shadow[:, :, :, : row.done]
        kv_row[:, :, :, row.done : position] = 0.0
        row.wanted = row.shadow = None
        return row.done
