"""What an ear hears: pieces one after another, silence where none has come yet. Pure.

In: pieces and when they came. Out: one track whose second n is second n of the call, and the gaps in it.
Must not know: clocks, sockets.
"""

from __future__ import annotations

import numpy as np

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm, silence


class Timeline:
    """Plays like a loudspeaker with a cushion: after a gap it waits so long before it goes on.

    Args:
        cushion_seconds: how much sound is kept waiting, so that a piece may come that late and leave no gap.
    Attributes:
        gaps: how often the sound ran dry after it had begun. gap_seconds: how long, all together.
    """

    def __init__(self, cushion_seconds: float = 0.0) -> None:
        self._cushion = round(cushion_seconds * SAMPLE_RATE_HZ)
        self._pieces: list[Pcm] = []
        self._end = 0
        self._begun = False
        self.gaps = 0
        self.gap_samples = 0

    @property
    def seconds(self) -> float:
        """How long the track is."""
        return self._end / SAMPLE_RATE_HZ

    @property
    def gap_seconds(self) -> float:
        """Silence that nobody sent, since the sound began."""
        return self.gap_samples / SAMPLE_RATE_HZ

    def place(self, pcm: Pcm, at_seconds: float) -> None:
        """Adds float32 [n] that came at a second of the call: behind what still plays, or after a gap."""
        at = max(0, round(at_seconds * SAMPLE_RATE_HZ))
        if at > self._end or not self._begun:
            at += self._cushion
            if self._begun:
                self.gaps += 1
                self.gap_samples += at - self._end
            self._add(silence(at - self._end))
        self._begun = True
        self._add(pcm)

    def _add(self, pcm: Pcm) -> None:
        self._pieces.append(pcm)
        self._end += len(pcm)

    def track(self, seconds: float = 0.0) -> Pcm:
        """float32 [samples], filled up with silence to at least so many seconds."""
        rest = max(0, round(seconds * SAMPLE_RATE_HZ) - self._end)
        return np.concatenate([silence(0), *self._pieces, silence(rest)])
