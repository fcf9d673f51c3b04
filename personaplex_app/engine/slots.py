"""Slots and generations: who holds which row, and whether a result still belongs to its tenant. Pure.

In: claims and releases. Out: tenancies. Must not know: threads, time, sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from personaplex_app.errors import NoCapacity


class SlotState(Enum):
    """A slot is free, being primed, live, or drained of its last step before it is free again."""

    FREE = "free"
    PRIMING = "priming"
    LIVE = "live"
    DRAINING = "draining"


@dataclass(frozen=True)
class Tenancy:
    """One conversation's hold of one slot; the generation tells it from earlier and later tenants."""

    slot: int
    generation: int


class SlotTable:
    """The slots' states. A tenancy that is over can change nothing any more."""

    def __init__(self, slots: int) -> None:
        self._states = [SlotState.FREE] * slots
        self._generations = [0] * slots

    @property
    def total(self) -> int:
        return len(self._states)

    @property
    def free(self) -> int:
        """How many slots a newcomer could have."""
        return self._states.count(SlotState.FREE)

    def claim(self) -> Tenancy:
        """Takes the first free slot for priming; raises NoCapacity with a sentence."""
        if SlotState.FREE not in self._states:
            raise NoCapacity(full_sentence(self.total))
        slot = self._states.index(SlotState.FREE)
        self._generations[slot] += 1
        self._states[slot] = SlotState.PRIMING
        return Tenancy(slot, self._generations[slot])

    def renew(self, tenancy: Tenancy) -> Tenancy | None:
        """The next tenancy of a slot that is primed or live, for priming: nobody comes in between.

        None for a tenancy that is over, or drained.
        """
        if self.state(tenancy) not in (SlotState.PRIMING, SlotState.LIVE):
            return None
        self._generations[tenancy.slot] += 1
        self._states[tenancy.slot] = SlotState.PRIMING
        return Tenancy(tenancy.slot, self._generations[tenancy.slot])

    def state(self, tenancy: Tenancy) -> SlotState:
        """The slot's state as far as this tenancy is concerned: FREE once it is over."""
        if self._generations[tenancy.slot] != tenancy.generation:
            return SlotState.FREE
        return self._states[tenancy.slot]

    def go_live(self, tenancy: Tenancy) -> bool:
        """PRIMING to LIVE; False where the tenant has left meanwhile."""
        return self._move(tenancy, SlotState.PRIMING, SlotState.LIVE)

    def drain(self, tenancy: Tenancy) -> bool:
        """PRIMING or LIVE to DRAINING: takes no more frames, is not given away yet."""
        return self._move(tenancy, SlotState.LIVE, SlotState.DRAINING) or self._move(
            tenancy, SlotState.PRIMING, SlotState.DRAINING
        )

    def release(self, tenancy: Tenancy) -> bool:
        """DRAINING to FREE."""
        return self._move(tenancy, SlotState.DRAINING, SlotState.FREE)

    def _move(self, tenancy: Tenancy, before: SlotState, after: SlotState) -> bool:
        if self.state(tenancy) is not before:
            return False
        self._states[tenancy.slot] = after
        return True


def full_sentence(slots: int) -> str:
    """What a visitor reads while every slot is taken."""
    if slots == 1:
        return "Somebody is talking right now, and there is one line only. Press Talk to queue."
    return f"All {slots} lines are taken right now. Press Talk to queue."
