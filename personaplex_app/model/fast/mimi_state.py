"""The streaming state of one direction of the codec: a row per slot in every tensor, zero where nothing was heard yet.

In: the sizes of tracks and rings. Out: columns to read and write, views of a row's state, the step to the next frame.
Must not know: weights, what is computed.

A track holds the past columns that a product reads again, and behind them the columns of the frame in work. Only the
past is state. Tracks lie in one arena, so that one launch moves all pasts on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex_app.model.fast import mimi_plan as plan
from personaplex_app.model.fast.codec_kernels_edges import move_on

_ALIGNED = 64  # float32 numbers


@dataclass(frozen=True)
class Track:
    """`past` and `time` columns of `width` channels a slot; they begin at `start` in the arena."""

    past: int
    time: int
    width: int
    start: int

    @property
    def row_size(self) -> int:
        """Numbers of a slot."""
        return (self.past + self.time) * self.width


class State:
    """Tracks, the transformer's rings and how many positions each row has seen, for `slots` rows."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self.slots = slots
        self.device = device
        self.offsets = torch.zeros(slots, dtype=torch.int64, device=device)
        self.rings = torch.empty(0)
        self._channels = plan.CHANNELS_A_MOVE
        self._tracks: list[Track] = []
        self._size = 0

    def track(self, past: int, time: int, width: int) -> Track:
        """A new track; to be used once `build` has run."""
        track = Track(past, time, width, self._size)
        self._tracks.append(track)
        self._size += -(-self.slots * track.row_size // _ALIGNED) * _ALIGNED
        return track

    def build(self, layers: int, heads: int, context: int, head_width: int) -> None:
        """Makes the tensors: the arena and rings [slots, layers, 2, heads, context, head_width]."""
        self._arena = torch.zeros(self._size, device=self.device)
        self.rings = torch.zeros(self.slots, layers, 2, heads, context, head_width, device=self.device)
        items = [
            [track.start, track.row_size, track.width, track.past, track.time * track.width, first]
            for track in self._tracks
            if track.past
            for first in range(0, track.width, self._channels)
        ]
        self._items = torch.tensor(items, dtype=torch.int64, device=self.device)
        self._most_past = plan.power_of_two(max(track.past for track in self._tracks))

    def whole(self, track: Track) -> Tensor:
        """[slots, past + time, width], the past in front."""
        rows = self._arena[track.start : track.start + self.slots * track.row_size]
        return rows.view(self.slots, track.past + track.time, track.width)

    def fresh(self, track: Track) -> Tensor:
        """[slots, time, width], the columns of the frame in work."""
        return self.whole(track)[:, track.past :]

    def rows(self, slot: int) -> Iterator[Tensor]:
        """Views of all that a row keeps from frame to frame."""
        for track in self._tracks:
            if track.past:
                yield self.whole(track)[slot, : track.past]
        yield self.rings[slot]
        yield self.offsets[slot : slot + 1]

    def move_on(self, live: Tensor, positions: int) -> None:
        """Ends a frame of `positions` transformer positions for the live ones of the first rows; live: bool [b]."""
        items, fields = self._items.shape
        move_on[(items, live.shape[0])](
            self._arena,
            self._items,
            self.offsets,
            live,
            positions,
            ITEM=fields,
            PAST=self._most_past,
            BLOCK=self._channels,
        )
