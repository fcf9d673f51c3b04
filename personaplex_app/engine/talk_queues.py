"""The two queues of a talk: what was heard and waits for its tick, what was spoken and waits to be fetched.

In: pieces of sound from the web's thread, one spoken frame a step from the tick thread. Out: whole frames, oldest
first; how many wait, since when one is wanted, and what was counted. Both queues are bounded: the oldest is dropped and
counted. Must not know: the web, torch, sessions, what is said.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from personaplex_app.audio import FRAME_MS, FrameAssembler, Pcm, silence
from personaplex_app.engine.scheduler import PATIENCE_SECONDS, SlotView
from personaplex_app.engine.talk_so_far import Counters

HEARD_FRAMES = 3
SPOKEN_FRAMES = 4
SLOW_MEMORY_SECONDS = 2.0


@dataclass(frozen=True)
class SpokenFrame:
    """float32 [1920] of one step, and the frame that was heard in it; `index` counts the talk's frames from 0."""

    pcm: Pcm
    index: int
    heard: Pcm


class TalkQueues:
    """Exactly two threads meet here: the web's hears and takes what was spoken, the tick thread does the rest."""

    def __init__(self, counters: Counters, clock: Callable[[], float]) -> None:
        """`counters` are the talk's own and are counted in place; `clock` is steady, in seconds."""
        self._counters = counters
        self._clock = clock
        self._lock = threading.Lock()
        self._assembler = FrameAssembler()
        self._heard: deque[Pcm] = deque()
        self._spoken: deque[SpokenFrame] = deque()
        self._in_step = silence()
        self._hungry_since = clock()
        self._slow_at = float("-inf")

    # The web's thread.

    def hear(self, pcm: Pcm) -> bool:
        """Takes float32 [n]; True when a frame became whole. The oldest frame is dropped where too many wait."""
        frames = self._assembler.push(pcm)
        with self._lock:
            for frame in frames:
                self._counters.heard += 1
                self._heard.append(frame)
                if len(self._heard) > HEARD_FRAMES:
                    self._heard.popleft()
                    self._counters.heard_dropped += 1
                    self._slow_at = self._clock()
        return bool(frames)

    def take_spoken(self) -> SpokenFrame | None:
        """The oldest spoken frame that waits, or None."""
        with self._lock:
            return self._spoken.popleft() if self._spoken else None

    def note_unsent(self) -> None:
        """A spoken frame was taken and could not be sent."""
        with self._lock:
            self._counters.spoken_dropped += 1

    @property
    def slow(self) -> bool:
        """Whether heard frames were dropped lately because the engine takes longer than they last."""
        return self._clock() - self._slow_at < SLOW_MEMORY_SECONDS

    # Either thread.

    @property
    def waiting(self) -> tuple[int, int]:
        """How many heard frames wait for the model, and how many spoken ones for whoever takes them."""
        with self._lock:
            return len(self._heard), len(self._spoken)

    def counted(self) -> Counters:
        """The counters as they are now, in a copy."""
        with self._lock:
            return replace(self._counters)

    # The tick thread.

    def begin(self, now: float) -> None:
        """A frame is wanted from `now` on, in the clock's seconds."""
        with self._lock:
            self._hungry_since = now

    def view(self, slot: int) -> SlotView:
        """What the scheduler needs to know of the talk in this slot."""
        with self._lock:
            return SlotView(slot, len(self._heard), self._hungry_since)

    def take_heard(self) -> Pcm:
        """The oldest heard frame, float32 [1920]; silence, counted, where none waits."""
        self._in_step = self._next_heard()
        return self._in_step

    def _next_heard(self) -> Pcm:
        with self._lock:
            frame = self._heard.popleft() if self._heard else None
        if frame is None:
            self._counters.silence_filled += 1
            # Time lost to a stall is not made up for: the next silence is due a frame from now at the earliest.
            latest = self._clock() - PATIENCE_SECONDS
            self._hungry_since = max(self._hungry_since, latest) + FRAME_MS / 1000
            return silence()
        self._hungry_since = self._clock()
        return frame

    def deliver(self, pcm: Pcm) -> None:
        """One step's float32 [1920], beside what was heard in it; the oldest is dropped where nobody takes them."""
        with self._lock:
            self._spoken.append(SpokenFrame(pcm, self._counters.stepped, self._in_step))
            self._counters.stepped += 1
            if len(self._spoken) > SPOKEN_FRAMES:
                self._spoken.popleft()
                self._counters.spoken_dropped += 1
