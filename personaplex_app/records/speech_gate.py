"""Whether somebody speaks in a frame: by its level above the room's noise, then, where one is given, by a detector.

A detector costs twenty times what the level does, so it is asked about loud frames only, and rests for a while once it
has found speech. In: one side's frames, float32 [1920], in order. Out: yes or no, and how many frames before this one
turned out to be speech too. Must not know: talks, the web, which detector.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from personaplex_app.audio import FRAME_SAMPLES, Pcm

PARTS = 4  # of 20 ms; two of them must be loud, so that a click is not speech
FLOOR_FRAMES = 30  # 2.4 s: speech falls to the room's noise that often
OVER_FLOOR_DB = 9.0
HINT_OVER_FLOOR_DB = 5.0  # for asking a detector
QUIETEST_DB = -55.0
LOWEST_DB = -99.0
REST_FRAMES = 3
DOUBT_FRAMES = 1  # so long it may take until a detector finds speech again
PAUSE_FRAMES = 1  # after a longer one it is asked at once
MOST_BACK = 6  # a detector needs up to so many frames to be sure


class Detector(Protocol):
    """What tells speech from noise."""

    def heard(self, pcm: Pcm) -> bool:
        """Whether speech was found in these samples and the little that came before."""

    def forget(self) -> None:
        """What comes next does not follow on what came."""


@dataclass(frozen=True)
class Decision:
    """Of one frame.

    Attributes:
        speech: whether somebody speaks. before: so many frames before it were speech too. level_db: of the frame, dBFS.
    """

    speech: bool
    before: int
    level_db: float


class SpeechGate:
    """One side's gate.

    Args:
        detector: asked where the level leaves it open; without one the level decides.
    """

    def __init__(self, detector: Detector | None = None) -> None:
        self._detector = detector
        self._over_floor_db = HINT_OVER_FLOOR_DB if detector else OVER_FLOOR_DB
        self._floors: deque[float] = deque(maxlen=FLOOR_FRAMES)
        self._loud_frames = self._quiet_frames = 0
        self._found_ago = REST_FRAMES + DOUBT_FRAMES
        self._spoke = False

    def saw(self, pcm: Pcm) -> Decision:
        """The next frame."""
        powers = np.square(pcm.reshape(PARTS, FRAME_SAMPLES // PARTS)).mean(axis=1)
        lowest, _, second, _ = sorted(map(_decibels, powers.tolist()))
        self._floors.append(lowest)
        level = _decibels(float(powers.mean()))
        if second < max(QUIETEST_DB, min(self._floors) + self._over_floor_db):
            self._loud_frames, self._spoke = 0, False
            self._quiet_frames += 1
            return Decision(False, 0, level)
        speech = self._found(pcm)
        before = min(self._loud_frames, MOST_BACK) if speech and not self._spoke else 0
        self._loud_frames, self._quiet_frames, self._spoke = self._loud_frames + 1, 0, speech
        return Decision(speech, before, level)

    def _found(self, pcm: Pcm) -> bool:
        """For a loud frame."""
        if self._detector is None:
            return True
        if self._quiet_frames > PAUSE_FRAMES:
            self._found_ago = REST_FRAMES + DOUBT_FRAMES
        self._found_ago += 1
        if self._found_ago > REST_FRAMES and self._asked(self._detector, pcm):
            self._found_ago = 0
        return self._found_ago <= REST_FRAMES + DOUBT_FRAMES

    def _asked(self, detector: Detector, pcm: Pcm) -> bool:
        if self._quiet_frames:
            detector.forget()
        return detector.heard(pcm)


def _decibels(power: float) -> float:
    return max(LOWEST_DB, 10 * math.log10(power)) if power > 0 else LOWEST_DB
