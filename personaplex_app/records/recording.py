"""A recording: both sides of a talk from the frame at which it was allowed, in memory that is bounded. Pure.

In: frames as they were heard and spoken in one step, by index. Out: the same as 16-bit stereo, the visitor left, the
persona right; what was dropped on its way is silence, so that an index has its time. Nothing is written anywhere else.
Must not know: who allowed it, the web, files.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS, Pcm, int16_from_float

CHANNELS = 2
FRAME_BYTES = FRAME_SAMPLES * CHANNELS * 2
BLOCK_FRAMES = 16
# Whole pages of the system's, which has them back at once when a recording is erased; of a heap it would not.
BLOCK_BYTES = BLOCK_FRAMES * FRAME_BYTES
FULL = "The server's memory for recordings is full: the recording ended here."
LONG_ENOUGH = "The recording is as long as one may be: it ended here."


class Room:
    """Memory that all recordings of a server share.

    Attributes:
        bytes: taken so far.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0

    @property
    def left_bytes(self) -> int:
        """What can still be taken."""
        return self.most_bytes - self.bytes

    def take(self, count: int) -> bool:
        """False where there is not so much."""
        if count > self.left_bytes:
            return False
        self.bytes += count
        return True

    def give(self, count: int) -> None:
        """What was taken."""
        self.bytes -= count


class Recording:
    """One recording.

    Attributes:
        on: whether frames are still added. why: a sentence, where it ended by itself.
        first_frame: of the talk; None until there is one.
    """

    def __init__(self, room: Room, most_frames: int) -> None:
        self.on = True
        self.why = ""
        self.first_frame: int | None = None
        self._room = room
        self._most_frames = most_frames
        self._blocks: dict[int, mmap.mmap] = {}  # those that have a frame
        self._frames = self._kept = 0

    def __len__(self) -> int:
        return self._frames

    @property
    def seconds(self) -> float:
        """How long it is."""
        return round(self._frames * FRAME_SECONDS, 3)

    @property
    def kept_bytes(self) -> int:
        """Memory that it takes; what was dropped takes none."""
        return self._kept * FRAME_BYTES

    def saw(self, index: int, heard: Pcm, spoken: Pcm) -> None:
        """A frame of the talk, float32 [1920] each; frames that are missing before it were dropped."""
        if not self.on:
            return
        if self.first_frame is None:
            self.first_frame = index
        at = index - self.first_frame
        if at < self._frames:
            return  # was there already
        if at >= self._most_frames:
            self._stop(LONG_ENOUGH)
        elif not self._room.take(FRAME_BYTES):
            self._stop(FULL)
        else:
            self._kept += 1
            self._keep(at, _interleaved(heard, spoken))

    def _keep(self, at: int, frame: bytes) -> None:
        number, place = divmod(at, BLOCK_FRAMES)
        if number not in self._blocks:
            self._blocks[number] = mmap.mmap(-1, BLOCK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._blocks[number][place * FRAME_BYTES : (place + 1) * FRAME_BYTES] = frame
        self._frames = at + 1

    def _stop(self, why: str) -> None:
        self.on, self.why = False, why

    def pieces(self, frames: int) -> Iterator[bytes]:
        """The first so many frames, piece by piece; what is erased meanwhile is silence."""
        for number, first in enumerate(range(0, frames, BLOCK_FRAMES)):
            size = min(BLOCK_FRAMES, frames - first) * FRAME_BYTES
            block = self._blocks.get(number)
            yield bytes(size) if block is None else block[:size]

    def erase(self) -> None:
        """Ends it and leaves nothing of it."""
        self.on = False
        for block in self._blocks.values():
            block.close()
        self._blocks.clear()
        self._room.give(self.kept_bytes)
        self._frames = self._kept = 0


def _interleaved(heard: Pcm, spoken: Pcm) -> bytes:
    both = np.stack([int16_from_float(heard), int16_from_float(spoken)], axis=1)
    return both.astype("<i2").tobytes()
