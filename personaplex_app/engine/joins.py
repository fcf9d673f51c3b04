"""How often somebody may come: so many joins within so many seconds. Pure; memory is bounded by the rate itself.

Must not know: who the names are.
"""

from __future__ import annotations

from collections import deque

SWEEP_ABOVE = 1_000


class JoinLimit:
    """Counts joins by name in a window that slides."""

    def __init__(self, most: int, within_seconds: float) -> None:
        self._most = most
        self._within = within_seconds
        self._joins: dict[str, deque[float]] = {}

    def wait_seconds(self, name: str, now: float) -> float:
        """How long until this name may join again; 0 for at once."""
        joins = self._recent(name, now)
        return 0.0 if len(joins) < self._most else max(joins[0] + self._within - now, 0.001)

    def note(self, name: str, now: float) -> None:
        """One join."""
        self._joins.setdefault(name, deque()).append(now)
        if len(self._joins) > SWEEP_ABOVE:
            self._sweep(now)

    def _recent(self, name: str, now: float) -> deque[float]:
        joins = self._joins.get(name, deque())
        while joins and joins[0] <= now - self._within:
            joins.popleft()
        return joins

    def _sweep(self, now: float) -> None:
        for name in list(self._joins):
            if not self._recent(name, now):
                del self._joins[name]
