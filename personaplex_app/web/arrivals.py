"""Packets as they arrive become packets in order, with a mark where one is lost. Pure.

In: numbered packets, some late, some never. Out: runs in order, each given up as soon as it can be: without a hole no
packet waits for another. Must not know: RTP, Opus, clocks.

A missing packet is waited for only as long as packets have lately come out of order, counted in later ones that are
there; so a line that loses but never reorders costs nearly no delay, and one that reorders costs as much as it must.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

NUMBERS = 1 << 16
LEAST_PATIENCE, MOST_PATIENCE = 1, 4
CALM_PACKETS = 500  # without one out of order, after which patience shrinks
MOST_LOST_IN_ROW = 4  # of a longer hole the rest is left out: filling it would only be late
RESTART_PACKETS = 100  # a jump so far is another stream


@dataclass
class ArrivalCounters:
    """What came: packets lost, and those that came after they were given up."""

    lost: int = 0
    late: int = 0


class InOrder(Generic[T]):
    """Holds back what follows a hole until it is filled or given up."""

    def __init__(self) -> None:
        self.counters = ArrivalCounters()
        self.patience = LEAST_PATIENCE
        self._held: dict[int, T] = {}
        self._next = self._newest = -1
        self._calm = 0
        self._lost_in_row = 0

    def push(self, number: int, packet: T) -> list[T | None]:
        """Takes a packet, its number modulo 65,536; returns a run of packets, None for each lost one.

        The run is empty where the packet has to wait, or comes too late; else it ends with a packet.
        """
        if self._next < 0 or abs(_ahead(number, self._next)) >= RESTART_PACKETS:
            self._held.clear()
            self._next = self._newest = number
        self._watch_order(number)
        if _ahead(number, self._next) < 0:
            self.counters.late += 1
            return []
        self._held.setdefault(number, packet)
        return self._release()

    def _watch_order(self, number: int) -> None:
        behind = -_ahead(number, self._newest)
        if behind <= 0:
            self._newest = number
        if behind >= self.patience:
            self.patience, self._calm = min(behind, MOST_PATIENCE), 0
            return
        self._calm += 1
        if self._calm >= CALM_PACKETS:
            self.patience, self._calm = max(LEAST_PATIENCE, self.patience - 1), 0

    def _release(self) -> list[T | None]:
        run: list[T | None] = []
        while self._held:
            packet = self._held.pop(self._next, None)
            if packet is None and len(self._held) <= self.patience:
                break
            self._next = (self._next + 1) % NUMBERS
            self._lost_in_row = self._lost_in_row + 1 if packet is None else 0
            self.counters.lost += packet is None
            if self._lost_in_row <= MOST_LOST_IN_ROW:
                run.append(packet)
        return run


def _ahead(number: int, than: int) -> int:
    """How far a number is ahead of another, -32,768 to 32,767."""
    return (number - than + NUMBERS // 2) % NUMBERS - NUMBERS // 2
