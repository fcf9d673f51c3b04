"""What prompts leave behind, kept for the next visitor with the same persona; bounded, the longest unused goes first.

One that was read beforehand and that nobody used yet goes before all others, the last read first.
In: a name and a prompt's state. Out: the state again. Must not know: rows, voices, texts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from torch import Tensor

MOST_BYTES = 2 << 30


@dataclass(frozen=True)
class PromptState:
    """blocks: the past of n positions as rows hold it. hidden: [1, D] and logits: [1, V] of the last position."""

    blocks: list[Tensor]
    hidden: Tensor
    logits: Tensor

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return sum(part.numel() * part.element_size() for part in (*self.blocks, self.hidden, self.logits))


class PromptStates:
    """The states by name, on the device where they are needed."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._states: OrderedDict[Hashable, PromptState] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, name: Hashable) -> bool:
        """Whether a state is kept; any thread may ask, and it does not count as use."""
        return name in self._states

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more could be kept and nothing had to go."""
        return self.bytes + size <= self._most_bytes

    def find(self, name: Hashable) -> PromptState | None:
        """The state, if it is kept; it counts as used now."""
        state = self._states.get(name)
        if state is not None:
            self._states.move_to_end(name)
        return state

    def keep(self, name: Hashable, state: PromptState) -> None:
        """Keeps a state; one that is larger than the whole bound is not kept."""
        self.forget(name)
        if state.bytes > self._most_bytes:
            return
        self._states[name] = state
        self.bytes += state.bytes
        while self.bytes > self._most_bytes:
            self.forget(next(iter(self._states)))

    def keep_unused(self, name: Hashable, state: PromptState) -> None:
        """Keeps a state that nobody asked for yet, where nothing has to go for it; it is the first to go."""
        if name not in self._states and self.has_room(state.bytes):
            self.keep(name, state)
            self._states.move_to_end(name, last=False)

    def forget(self, name: Hashable) -> None:
        """No more of it."""
        state = self._states.pop(name, None)
        if state is not None:
            self.bytes -= state.bytes
