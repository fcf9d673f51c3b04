"""A bounded queue between a talk and whoever reads it: the oldest goes first where nobody reads.

Must not know: what is in it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """For one event loop.

    Attributes:
        dropped: how many items nobody took in time.
    """

    def __init__(self, most: int) -> None:
        self.dropped = 0
        self._items: deque[Item] = deque()
        self._most = most
        self._closed = False
        self._changed = asyncio.Event()

    def put(self, item: Item) -> None:
        """Adds an item; never waits."""
        self._items.append(item)
        if len(self._items) > self._most:
            self._items.popleft()
            self.dropped += 1
        self._changed.set()

    def close(self) -> None:
        """No more will come; what is there can still be taken."""
        self._closed = True
        self._changed.set()

    async def get(self) -> Item | None:
        """The oldest item, once there is one; None when closed and empty."""
        while not self._items:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        return self._items.popleft()
