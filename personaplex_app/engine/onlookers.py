"""Those who look on at a talk: each sees every frame as the model heard it, beside the one it spoke in the same step.

In: frames in the order of the talk; one that was dropped on its way is missing, its index with it, and one that comes
late, because the connection before a resume was slow, is passed over. Out: nothing; what an onlooker makes of them is
its own. Looking on happens on the web's thread, never in a step.
Must not know: the web, torch, what is looked for.
"""

from __future__ import annotations

import logging
from typing import Protocol, TypeVar

from personaplex_app.audio import Pcm

log = logging.getLogger(__name__)

Kind = TypeVar("Kind")


class Onlooker(Protocol):
    """Sees one frame after another."""

    def saw(self, index: int, heard: Pcm, spoken: Pcm) -> None:
        """`index` counts the talk's frames from 0; both float32 [1920]."""


class Onlookers:
    """All who look on at one talk, a resumed one's included; whoever fails looks on no more."""

    def __init__(self) -> None:
        self._all: list[Onlooker] = []
        self._next = 0

    def add(self, onlooker: Onlooker) -> None:
        """One more, from the next frame on."""
        self._all.append(onlooker)

    def remove(self, onlooker: Onlooker) -> None:
        """It has seen enough; nothing happens where it does not look on."""
        self._all = [one for one in self._all if one is not onlooker]

    def find(self, kind: type[Kind]) -> Kind | None:
        """The first of this kind, which a resumed talk has already."""
        return next((one for one in self._all if isinstance(one, kind)), None)

    def saw(self, index: int, heard: Pcm, spoken: Pcm) -> None:
        """Shows a frame to all."""
        if index < self._next:
            return
        self._next = index + 1
        for onlooker in self._all:
            try:
                onlooker.saw(index, heard, spoken)
            except Exception:
                log.exception("%s failed and looks on no more", type(onlooker).__name__)
                self.remove(onlooker)
