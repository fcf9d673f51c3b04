"""How alike two sounds' changes of loudness are at each lag. Pure.

In: rows of changes, heard and spoken (`envelopes`). Out: for each lag how far their products stand out from chance, in
standard deviations: each 10 ms gives one product, its bands together, and squares of products say what chance is worth.
Must not know: what a likeness means.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.envelopes import BANDS, HOPS, Changes

AHEAD_HOPS = 40  # lags below 0
LAG_HOPS = 130
LAGS = AHEAD_HOPS + LAG_HOPS
SLOW_SECONDS, FAST_SECONDS = 8.0, 4.0
SLOW, FAST = 0, 1
POWER_HOPS = 800
ACTIVE_FRAMES = 13  # what was spoken in the last second may be heard now
ACTIVE_DB = 1.0
LOUD_SHARE = 0.25  # of the spoken sound, the loudest, is measured
USUAL_SHARE = 0.35  # below the middle: now and then the visitor speaks too

Floats: TypeAlias = npt.NDArray[np.float32]


class Likeness:
    """Follows two sounds; while nothing is spoken it stands still."""

    def __init__(self) -> None:
        self._heard: Floats = np.zeros((AHEAD_HOPS + HOPS, BANDS), dtype=np.float32)
        self._spoken: Floats = np.zeros((LAGS + HOPS, BANDS), dtype=np.float32)
        self._powers: Floats = np.zeros((2, POWER_HOPS), dtype=np.float32)
        self._quiet_frames = ACTIVE_FRAMES
        self._keep = np.exp(-FRAME_SECONDS / np.array([SLOW_SECONDS, FAST_SECONDS], dtype=np.float32))[:, None]
        self.forget()

    def forget(self) -> None:
        """Begins anew."""
        self._sums = np.zeros((2, LAGS), dtype=np.float32)
        self._squares = np.zeros(LAGS, dtype=np.float32)

    def saw(self, changes: Changes) -> bool:
        """The next frame; whether it counted."""
        self._heard = np.concatenate([self._heard[HOPS:], changes.heard])
        self._spoken = np.concatenate([self._spoken[HOPS:], changes.spoken])
        self._powers = np.concatenate([self._powers[:, HOPS:], changes.powers], axis=1)
        active = float(np.abs(changes.spoken).max()) > ACTIVE_DB
        self._quiet_frames = 0 if active else self._quiet_frames + 1
        if self._quiet_frames >= ACTIVE_FRAMES:
            return False
        at_lags = np.lib.stride_tricks.sliding_window_view(self._spoken, HOPS, axis=0)[:0:-1]  # lag -AHEAD_HOPS first
        products = np.einsum("tb,lbt->tl", self._heard[:HOPS], at_lags)
        self._sums = self._keep * self._sums + products.sum(axis=0)
        self._squares = self._keep[SLOW] * self._squares + np.square(products).sum(axis=0)
        return True

    def all(self) -> Floats:
        """Of all lags, -40 to 129 hops."""
        return np.asarray(self._sums[SLOW] / np.sqrt(self._squares + 1e-6), dtype=np.float32)

    def lately(self, lag: int, hops: int) -> float:
        """The most within so many hops of a lag, over the shorter time."""
        near = slice(lag + AHEAD_HOPS - hops, lag + AHEAD_HOPS + hops + 1)
        chance = np.sqrt(self._squares[near] * FAST_SECONDS / SLOW_SECONDS + 1e-6)  # of the longer time: there is more
        return float((self._sums[FAST, near] / chance).max())

    def level_db(self, lag: int) -> float:
        """How loud the spoken sound is heard at this lag, against how loud it was spoken, over the last seconds."""
        heard, spoken = self._powers[0, lag:], self._powers[1, : POWER_HOPS - lag]
        loud = (spoken > 0) & (spoken >= np.quantile(spoken, 1 - LOUD_SHARE))
        ratios = heard[loud] / spoken[loud]
        return float(10 * np.log10(max(1e-9, np.quantile(ratios, USUAL_SHARE)))) if len(ratios) else -90.0
