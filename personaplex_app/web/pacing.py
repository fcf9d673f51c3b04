"""Bounded, click-free output: fills gaps with silence, sheds what has piled up, silence first. Pure.

In: spoken frames and how much sound already waits to be sent. Out: pieces to send, counted.
Must not know: FastRTC, sessions, clocks.

A cushion of waiting sound hides a late frame but delays every other. It starts at nothing, grows by a packet when a
gap tore the persona's speech, and shrinks again after ten seconds without one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from personaplex_app.audio import FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm, silence

PACKET_SAMPLES = SAMPLE_RATE_HZ // 50
PACKET_MS = 20
FADE_SAMPLES = SAMPLE_RATE_HZ * 5 // 1000
MOST_WAITING_MS = 100  # with more than this before it, a frame is dropped
LARGEST_CUSHION_MS = 80
CALM_FRAMES = 125
QUIET_RMS = 0.004


@dataclass
class PacingCounters:
    """What pacing did, in packets of 20 ms and frames of 80 ms; a tear is a gap within speech."""

    filled_packets: int = 0
    torn: int = 0
    shed_packets: int = 0
    dropped_frames: int = 0


class SpokenPacer:
    """Decides what is sent of each spoken frame, and what fills the gap when there is none."""

    def __init__(self) -> None:
        self.counters = PacingCounters()
        self.cushion_ms = 0
        self._calm_frames = 0
        self._speaking = False
        self._last = 0.0
        self._broken = True  # the next piece does not continue the last sample sent

    def frame(self, pcm: Pcm, waiting_ms: float) -> Pcm | None:
        """What to send of float32 [1920] when `waiting_ms` of sound wait already; None where all of it is dropped."""
        self._relax()
        if waiting_ms > MOST_WAITING_MS:
            self.counters.dropped_frames += 1
            self._broken = True
            return None
        self._speaking = _rms(pcm) >= QUIET_RMS
        too_much = int((waiting_ms - self.cushion_ms) // PACKET_MS)
        if too_much > 0 and not self._speaking:
            cut = min(FRAME_SAMPLES // PACKET_SAMPLES - 1, too_much)
            self.counters.shed_packets += cut
            self._broken = True
            pcm = pcm[cut * PACKET_SAMPLES :]
        return self._joined(pcm)

    def _relax(self) -> None:
        self._calm_frames += 1
        if self._calm_frames >= CALM_FRAMES:
            self._calm_frames = 0
            self.cushion_ms = max(0, self.cushion_ms - PACKET_MS)

    def fill(self) -> Pcm:
        """20 ms for a gap: the last sample fades out, then silence."""
        self.counters.filled_packets += 1
        if self._speaking:
            self._speaking = False
            self._calm_frames = 0
            self.counters.torn += 1
            self.cushion_ms = min(LARGEST_CUSHION_MS, self.cushion_ms + PACKET_MS)
        self._broken = True
        piece = self._joined(silence(PACKET_SAMPLES))
        self._broken = True  # speech that follows does not continue the silence either
        return piece

    def _joined(self, pcm: Pcm) -> Pcm:
        """Where the sound was broken, fades from the last sample sent into the new piece."""
        if self._broken:
            ramp = np.linspace(0.0, 1.0, FADE_SAMPLES, dtype=np.float32)
            pcm = pcm.copy()
            pcm[:FADE_SAMPLES] = pcm[:FADE_SAMPLES] * ramp + np.float32(self._last) * (1.0 - ramp)
            self._broken = False
        self._last = float(pcm[-1])
        return pcm


def _rms(pcm: Pcm) -> float:
    return float(np.sqrt(np.mean(np.square(pcm))))
