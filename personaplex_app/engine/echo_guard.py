"""The echo guard: notices that the persona's voice comes back through the visitor's microphone. Pure.

What a loudspeaker plays changes in loudness as what was spoken did some time before, and whatever else is heard does
not: so one lag stands out. Covered are 40 to 850 ms: up to 400 ms on the way to the loudspeaker and back (pacing,
network, cushions) and 50 to 400 ms of sound card and room. At a lag of 0 or less nothing leaks: there the persona
repeats what it heard.

In: each frame heard beside the frame spoken in the same step. Out: a leak when it begins and when it is over, with its
lag and how loud it is. Only time in which the persona speaks counts. Must not know: threads, who is told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from personaplex_app.audio import Pcm
from personaplex_app.engine.envelopes import HOP_MS, Envelopes
from personaplex_app.engine.likeness import ACTIVE_FRAMES, AHEAD_HOPS, Likeness

SHORTEST_HOPS, LONGEST_HOPS = 4, 85  # 40 to 850 ms
ALARM = 6.0
STANDS_OUT = 1.5  # so many times what is found at other lags
NEAR_HOPS = 8
SILENT_PEAK = 0.001
STEADY_HOPS = 2
STEADY_FRAMES = 10
LATE_HOPS = 60  # from 600 ms on it may be the visitor who repeats what was heard half a second before
LATE_FRAMES = 190  # 15 s: so long nobody keeps the same lag, sentence by sentence
STILL = 3.0
GONE = 2.5
GONE_FRAMES = 38  # 3 s

BEGAN, OVER = "began", "over"
HEADPHONES = "The persona hears itself: use headphones, or turn echo cancellation on."
OVER_NOW = "The persona no longer hears itself."


@dataclass(frozen=True)
class Leak:
    """What is known of it.

    Attributes:
        action: `began` or `over`. frame: of the talk. lag_ms: from the step that spoke to the one that heard it.
        level_db: how loud it is heard, against how loud it was spoken; measured when it began.
    """

    action: str
    frame: int
    lag_ms: int
    level_db: int

    @property
    def sentence(self) -> str:
        """What the visitor reads."""
        return HEADPHONES if self.action == BEGAN else OVER_NOW


class EchoGuard:
    """Watches one talk.

    Attributes:
        leak: the one that is on, or None.
    """

    def __init__(self) -> None:
        self.leak: Leak | None = None
        self._envelopes = Envelopes()
        self._likeness = Likeness()
        self._lag = self._steady_frames = self._gone_frames = 0
        self._silent_frames = ACTIVE_FRAMES

    def saw(self, index: int, heard: Pcm, spoken: Pcm) -> Leak | None:
        """What one frame leads to."""
        self._silent_frames = 0 if float(np.abs(spoken).max()) > SILENT_PEAK else self._silent_frames + 1
        if self._silent_frames > ACTIVE_FRAMES or not self._likeness.saw(self._envelopes.saw(heard, spoken)):
            return None
        return self._look(index) if self.leak is None else self._look_again(index, self.leak)

    def _look(self, index: int) -> Leak | None:
        lag = self._found()
        if lag is None:
            self._steady_frames = max(0, self._steady_frames - 1)
        elif abs(lag - self._lag) <= STEADY_HOPS:
            self._steady_frames += 1
        else:
            self._lag, self._steady_frames = lag, 0
        if self._steady_frames < (STEADY_FRAMES if self._lag < LATE_HOPS else LATE_FRAMES):
            return None
        self._steady_frames = self._gone_frames = 0
        level_db = round(self._likeness.level_db(self._lag))
        self.leak = Leak(BEGAN, index, round(self._lag * HOP_MS), level_db)
        return self.leak

    def _found(self) -> int | None:
        """The lag, in hops, that stands out as a leak's does."""
        likeness = self._likeness.all()
        best = int(likeness.argmax())
        lag = best - AHEAD_HOPS
        if not SHORTEST_HOPS <= lag <= LONGEST_HOPS or likeness[best] < ALARM:
            return None
        if lag >= LATE_HOPS and self._likeness.lately(lag, STEADY_HOPS) < STILL:
            return None
        others = np.delete(likeness, np.s_[max(0, best - NEAR_HOPS) : best + NEAR_HOPS + 1])
        return lag if likeness[best] >= STANDS_OUT * others.max() else None

    def _look_again(self, index: int, leak: Leak) -> Leak | None:
        likely = self._likeness.lately(self._lag, STEADY_HOPS)
        self._gone_frames = self._gone_frames + 1 if likely < GONE else 0
        if self._gone_frames < GONE_FRAMES:
            return None
        self.leak = None
        self._likeness.forget()
        return Leak(OVER, index, leak.lag_ms, leak.level_db)
