"""Covers a hole in sound with what went before: the last period goes on, fading out, and the next sound fades in. Pure.

In: int16 [channels, n] in order. Out: as much for each hole. Must not know: packets, Opus.

Without it a lost packet would shorten the sound: what follows would come too early, and the model would hear a click.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Sound: TypeAlias = np.ndarray[Any, np.dtype[np.int16]]

SHORTEST_PERIOD, LONGEST_PERIOD = 120, 720  # samples at 48 kHz: 400 Hz to 67 Hz
TEMPLATE_SAMPLES = 480
KEPT_SAMPLES = TEMPLATE_SAMPLES + LONGEST_PERIOD
JOIN_SAMPLES = 240
GAINS = (1.0, 0.5, 0.0)  # at a first hole's start and end, and at a second's end; then silence


class Concealment:
    """Follows one stream; holes are as long as the last good piece."""

    def __init__(self) -> None:
        self.covered = 0
        self._past: Sound = np.zeros((1, 0), np.int16)
        self._samples = 0
        self._holes = 0
        self._going_on: np.ndarray[Any, Any] | None = None

    def good(self, sound: Sound) -> Sound:
        """A piece that came; its first samples are blended where it follows a hole."""
        if self._going_on is not None:
            ramp = np.linspace(0.0, 1.0, JOIN_SAMPLES, dtype=np.float32)[: sound.shape[1]]
            tail = self._going_on[:, : len(ramp)]
            sound = sound.copy()
            sound[:, : len(ramp)] = np.round(tail * (1 - ramp) + sound[:, : len(ramp)] * ramp)
        self._holes, self._going_on, self._samples = 0, None, sound.shape[1]
        same = self._past.shape[0] == sound.shape[0]
        self._past = np.concatenate([self._past, sound], axis=1)[:, -KEPT_SAMPLES:] if same else sound
        return sound

    def hole(self) -> Sound:
        """As much sound as the last good piece had; nothing before the first one."""
        self.covered += 1
        needed = self._samples + JOIN_SAMPLES
        if self._holes == 0:
            self._period = _period(self._past)
        repeated = self._extended(self._holes * self._samples, needed)
        start, end = (GAINS[min(self._holes + step, len(GAINS) - 1)] for step in (0, 1))
        slope = start + (end - start) * np.arange(needed, dtype=np.float32) / max(1, self._samples)
        repeated = repeated * np.maximum(slope, 0.0)
        self._holes += 1
        self._going_on = repeated[:, self._samples :]
        return np.round(repeated[:, : self._samples]).astype(np.int16)

    def _extended(self, start: int, count: int) -> np.ndarray[Any, Any]:
        """The last period over and over, `count` samples from `start` on."""
        cycle = self._past[:, -self._period :].astype(np.float32)
        if not cycle.shape[1]:
            return np.zeros((self._past.shape[0], count), np.float32)
        return cycle[:, (start + np.arange(count)) % cycle.shape[1]]


def _period(past: Sound) -> int:
    """The distance at which the latest sound resembles itself most, in samples."""
    mono = past.astype(np.float32).mean(axis=0)
    if len(mono) < KEPT_SAMPLES:
        return min(len(mono), LONGEST_PERIOD)
    template = mono[-TEMPLATE_SAMPLES:]
    earlier = mono[-TEMPLATE_SAMPLES - LONGEST_PERIOD : -SHORTEST_PERIOD]
    likeness = np.correlate(earlier, template, "valid")
    energy = np.convolve(earlier**2, np.ones(TEMPLATE_SAMPLES, np.float32), "valid")
    return LONGEST_PERIOD - int(np.argmax(likeness / np.sqrt(energy + 1.0)))
