"""The parking lot: talks whose visitor may come back, each under its secret grant, bounded in bytes and in time.

In: saved slots with what was said so far. Out: the same, once, to whoever names the grant. Any thread may call.
Must not know: slots, steppers, sessions' queues, the web.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from personaplex_app.engine.ports import SavedSlot
from personaplex_app.engine.talk_so_far import TalkSoFar

PARKING_BYTES = 2 << 30
GRANT_SECONDS = 25.0


@dataclass(frozen=True)
class Parked:
    """A talk that waits for its visitor."""

    saved: SavedSlot
    so_far: TalkSoFar


@dataclass(frozen=True)
class ParkedStatus:
    """Talks parked now and the bytes of their states; how many were dropped for want of room, or ran out, ever."""

    count: int
    bytes: int
    dropped: int
    expired: int


@dataclass(frozen=True)
class _Space:
    parked: Parked
    bytes: int
    until: float


class ParkingLot:
    """Holds talks for a while.

    Args:
        most_bytes: of all saved states together; the talk parked first goes first, a larger one is not kept at all.
        grant_seconds: how long a talk is held after `put` or the last `keep`. clock: steady seconds.
    """

    def __init__(self, most_bytes: int, grant_seconds: float, clock: Callable[[], float]) -> None:
        self._most_bytes = most_bytes
        self._grant_seconds = grant_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._spaces: dict[str, _Space] = {}  # the first put stands first
        self._dropped = self._expired = 0

    def put(self, grant: str, parked: Parked) -> bool:
        """Holds a talk, and drops the oldest ones that leave no room for it; False where it is too large itself."""
        size = parked.saved.bytes
        with self._lock:
            self._sweep()
            if size > self._most_bytes:
                self._dropped += 1
                return False
            while self._bytes() + size > self._most_bytes:
                del self._spaces[next(iter(self._spaces))]
                self._dropped += 1
            self._spaces[grant] = _Space(parked, size, self._clock() + self._grant_seconds)
        return True

    def look(self, grant: str) -> Parked | None:
        """The talk, which stays."""
        with self._lock:
            self._sweep()
            space = self._spaces.get(grant)
        return space.parked if space else None

    def take(self, grant: str) -> Parked | None:
        """The talk, which is held no longer: a grant is good for one."""
        with self._lock:
            self._sweep()
            space = self._spaces.pop(grant, None)
        return space.parked if space else None

    def keep(self, grant: str) -> bool:
        """Gives a talk its whole time again; its place among those that are dropped first stays."""
        with self._lock:
            self._sweep()
            space = self._spaces.get(grant)
            if space is not None:
                self._spaces[grant] = replace(space, until=self._clock() + self._grant_seconds)
        return space is not None

    def swap(self, grant: str, saved: SavedSlot) -> bool:
        """The same state lies somewhere else now; False where nobody waits for it any more."""
        with self._lock:
            space = self._spaces.get(grant)
            if space is not None:
                self._spaces[grant] = replace(space, parked=replace(space.parked, saved=saved))
        return space is not None

    def drop(self, grant: str) -> None:
        """Lets a talk go that cannot be kept."""
        with self._lock:
            self._dropped += self._spaces.pop(grant, None) is not None

    def forget(self, grant: str) -> None:
        """Lets a talk go that nobody wants any more."""
        with self._lock:
            self._spaces.pop(grant, None)

    def clear(self) -> None:
        """Lets all go."""
        with self._lock:
            self._spaces.clear()

    @property
    def status(self) -> ParkedStatus:
        """How full it is; what has run out is let go first."""
        with self._lock:
            self._sweep()
            return ParkedStatus(len(self._spaces), self._bytes(), self._dropped, self._expired)

    def _bytes(self) -> int:
        return sum(space.bytes for space in self._spaces.values())

    def _sweep(self) -> None:
        now = self._clock()
        over = [grant for grant, space in self._spaces.items() if space.until <= now]
        for grant in over:
            del self._spaces[grant]
        self._expired += len(over)
