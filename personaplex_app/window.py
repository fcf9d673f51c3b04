"""How far back a model remembers, in positions of 80 ms. Pure.

Must not know: models, who talks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """What a model remembers at most, its prompt included.

    Attributes:
        positions: how many. Where `kept_frames` is None the window slides: once it is full each position pushes the
            oldest one out, and the oldest of all are the prompt's.
        kept_frames: of the talk, for a model that reads its prompt and so many last frames anew before it is full.
    """

    positions: int
    kept_frames: int | None = None
