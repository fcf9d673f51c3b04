"""What an ear hears: pieces one after another, silence where none has come yet, and never far behind. Pure.

In: pieces and when they came. Out: one track whose second n is second n of the call, and what was torn or left out.
Must not know: clocks, sockets.
"""

from __future__ import annotations

import numpy as np

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm, silence

QUIET_RMS = 0.003
SPARE_SECONDS = 0.06  # so much more than the cushion may wait before silence is cut


class Timeline:
    """Plays like a loudspeaker with a cushion: after a gap it waits so long before it goes on.

    What comes in a heap after a stall would stay late for ever: quiet pieces are left out until the rest is in time.

    Args:
        cushion_seconds: how much sound is kept waiting, so that a piece may come that late and leave no gap.
        most_waiting_seconds: with more than this before it a piece is left out, whatever it holds.
    Attributes:
        gaps: how often the sound ran dry after it had begun. gap_seconds, shed_seconds: how much silence was put in,
            how much sound was left out.
    """

    def __init__(self, cushion_seconds: float = 0.0, most_waiting_seconds: float = 2.0) -> None:
        self._cushion = round(cushion_seconds * SAMPLE_RATE_HZ)
        self._most = round(most_waiting_seconds * SAMPLE_RATE_HZ)
        self._spare = self._cushion + round(SPARE_SECONDS * SAMPLE_RATE_HZ)
        self._pieces: list[Pcm] = []
        self._end = 0
        self._begun = False
        self.gaps = 0
        self._gap_samples = 0
        self._shed_samples = 0

    @property
    def seconds(self) -> float:
        """How long the track is."""
        return self._end / SAMPLE_RATE_HZ

    @property
    def gap_seconds(self) -> float:
        return self._gap_samples / SAMPLE_RATE_HZ

    @property
    def shed_seconds(self) -> float:
        return self._shed_samples / SAMPLE_RATE_HZ

    def place(self, pcm: Pcm, at_seconds: float) -> None:
        """Adds float32 [n] that came at a second of the call: behind what still plays, or after a gap."""
        at = max(0, round(at_seconds * SAMPLE_RATE_HZ))
        waiting = self._end - at
        if waiting < 0 or not self._begun:
            self._wait_until(at + self._cushion)
        elif waiting > self._most or (waiting > self._spare and _is_quiet(pcm)):
            self._shed_samples += len(pcm)
            return
        self._begun = True
        self._add(pcm)

    def _wait_until(self, at: int) -> None:
        if self._begun:
            self.gaps += 1
            self._gap_samples += at - self._end
        self._add(silence(at - self._end))

    def _add(self, pcm: Pcm) -> None:
        self._pieces.append(pcm)
        self._end += len(pcm)

    def track(self, seconds: float = 0.0) -> Pcm:
        """float32 [samples], filled up with silence to at least so many seconds."""
        rest = max(0, round(seconds * SAMPLE_RATE_HZ) - self._end)
        return np.concatenate([silence(0), *self._pieces, silence(rest)])


def _is_quiet(pcm: Pcm) -> bool:
    return float(np.sqrt(np.mean(np.square(pcm)))) < QUIET_RMS
