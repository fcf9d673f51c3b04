"""Frames that can be told from each other on their way there and back, and an echo with a word for every step."""

from __future__ import annotations

import numpy as np
from support.engine import ProbeStepper
from support.front import Caller

from personaplex_app.audio import FRAME_SAMPLES, Pcm

STEP = 1 / 1024  # PCM16 carries it exactly


class Counting(ProbeStepper):
    """A step's word is its token's number."""

    def text(self, token: int) -> bytes:
        return b" %d" % token


def counting(number: int) -> Pcm:
    """A microphone whose frames can be told from each other."""
    return np.full(FRAME_SAMPLES, STEP * (number % 500 + 1), dtype=np.float32)


def counted(caller: Caller) -> list[int]:
    """Which of `counting`'s frames came back, silence left out."""
    return [number for frame in caller.heard if (number := round(float(frame[0]) / STEP))]
