"""How often a talk that was cut off may be taken up: who comes back is first in the line, but not for ever.

In: the grants that are brought. Out: whether one still brings its talk back. Must not know: tickets, talks, sockets.
"""

from __future__ import annotations

from typing import Protocol

MOST_RETURNS = 5  # by one grant, which is without ever a sound: a talk that goes on has another


class Grants(Protocol):
    """What it needs of an engine."""

    def can_resume(self, grant: str) -> bool:
        """Whether there is a talk under this grant."""

    def forget(self, grant: str) -> None:
        """The talk under this grant is wanted no more."""


class Returns:
    """How often each grant was brought, of those that are worth something."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants
        self._counts: dict[str, int] = {}

    def note(self, grant: str) -> bool:
        """It is brought once more, and is forgotten where that is once too often; False where no talk is under it."""
        counts = {other: count for other, count in self._counts.items() if self._grants.can_resume(other)}
        counts[grant] = counts.get(grant, 0) + 1
        self._counts = counts
        if counts[grant] > MOST_RETURNS:
            self._grants.forget(grant)
        return self._grants.can_resume(grant)
