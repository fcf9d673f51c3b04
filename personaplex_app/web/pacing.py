"""Bounded, click-free output: fills gaps with silence, keeps what waits near a prebuffer, silence first. Pure.

In: spoken frames and how much sound already waits to be sent. Out: pieces to send, counted.
Must not know: FastRTC, sessions, clocks.

Waiting sound hides a late frame but delays every other. The prebuffer says how much may wait when a frame comes, the
packet that is just being sent included: 20 ms at first, a packet more when a gap tore the persona's speech, a packet
less after ten seconds in which a packet was always left. Quiet frames are cut or stretched towards it; speech too, a
packet at a time, only where the delay has stood far from it for half a second. Above a bound frames are dropped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from personaplex_app.audio import FRAME_MS, SAMPLE_RATE_HZ, Pcm, silence

PACKET_SAMPLES = SAMPLE_RATE_HZ // 50
PACKET_MS = 20
FADE_SAMPLES = SAMPLE_RATE_HZ // 100
LEAST_PREBUFFER_MS = 20
MOST_PREBUFFER_MS = 120
MOST_WAITING_MS = 160  # whatever the prebuffer, with more than this before it a frame is dropped
LEEWAY_MS = 80  # and with more than the prebuffer and this
SPEECH_LEEWAY_MS = 40
STANDING_FRAMES = 6
CALM_FRAMES = 125
QUIET_RMS = 0.004
MOST_CUT_PACKETS = 3  # of a frame's four: the crossfade needs the rest
SEARCH_STEP_SAMPLES = 48


@dataclass
class PacingCounters:
    """What pacing did, in packets of 20 ms and frames of 80 ms; a tear is a gap within speech.

    Attributes:
        shed_packets: cut out of quiet frames. added_packets: put into frames, most of them quiet.
        shed_speech_packets: cut out of speech. dropped_frames: dropped whole, quiet or not.
        prebuffer_ms: what may wait at present.
    """

    filled_packets: int = 0
    torn: int = 0
    shed_packets: int = 0
    added_packets: int = 0
    shed_speech_packets: int = 0
    dropped_frames: int = 0
    prebuffer_ms: int = LEAST_PREBUFFER_MS


class SpokenPacer:
    """Decides what is sent of each spoken frame, and what fills the gap when there is none."""

    def __init__(self) -> None:
        self.counters = PacingCounters()
        self._waits_ms: deque[float] = deque(maxlen=STANDING_FRAMES)
        self._calm_frames = 0
        self._speaking = False
        self._last = 0.0
        self._after: Pcm | None = silence(FADE_SAMPLES)  # would have followed what was sent; None: the next frame does

    @property
    def most_waiting_ms(self) -> float:
        """With more than this before it, a frame is dropped."""
        return min(MOST_WAITING_MS, self.counters.prebuffer_ms + LEEWAY_MS)

    def frame(self, pcm: Pcm, waiting_ms: float) -> Pcm | None:
        """What to send of float32 [1920] when `waiting_ms` of sound wait already; None where all of it is dropped."""
        self._relax(waiting_ms)
        self._waits_ms.append(waiting_ms)
        if waiting_ms > self.most_waiting_ms:
            self._drop(pcm)
            return None
        self._speaking = _rms(pcm) >= QUIET_RMS
        packets = self._packets_of_speech() if self._speaking else self._packets_of_silence(waiting_ms)
        if packets:
            self._count(packets)
            pcm = _respliced(pcm, packets * PACKET_SAMPLES)
        return self._joined(pcm)

    def fill(self) -> Pcm:
        """20 ms for a gap: the last sample fades out, then silence."""
        self.counters.filled_packets += 1
        if self._speaking:
            self._speaking = False
            self._calm_frames = 0
            self.counters.torn += 1
            self.counters.prebuffer_ms = min(MOST_PREBUFFER_MS, self.counters.prebuffer_ms + PACKET_MS)
        if self._after is None:
            self._after = np.full(FADE_SAMPLES, self._last, dtype=np.float32)
        piece = self._joined(silence(PACKET_SAMPLES))
        self._after = silence(FADE_SAMPLES)  # speech that follows does not continue the silence either
        return piece

    def _relax(self, waiting_ms: float) -> None:
        self._calm_frames = self._calm_frames + 1 if waiting_ms >= PACKET_MS else 0
        if self._calm_frames >= CALM_FRAMES:
            self._calm_frames = 0
            self.counters.prebuffer_ms = max(LEAST_PREBUFFER_MS, self.counters.prebuffer_ms - PACKET_MS)

    def _drop(self, pcm: Pcm) -> None:
        self.counters.dropped_frames += 1
        self._shift_waits(-FRAME_MS)
        if self._after is None:
            self._after = pcm[:FADE_SAMPLES].copy()

    def _packets_of_silence(self, waiting_ms: float) -> int:
        """How many packets to add to a quiet frame, or, below 0, to cut; a burst is cut before it stands."""
        least = min(self._waits_ms)
        if least <= self._queued_ms - PACKET_MS and waiting_ms < self._queued_ms + PACKET_MS:
            return 1
        too_much = int((max(least, waiting_ms - FRAME_MS) - self._queued_ms) // PACKET_MS)
        return -max(0, min(MOST_CUT_PACKETS, too_much))

    def _packets_of_speech(self) -> int:
        """One packet to add to speech or, below 0, to cut, where so has been called for during half a second."""
        if len(self._waits_ms) < STANDING_FRAMES:
            return 0
        if min(self._waits_ms) >= self._queued_ms + SPEECH_LEEWAY_MS:
            return -1
        return 1 if max(self._waits_ms) <= self._queued_ms - SPEECH_LEEWAY_MS else 0

    @property
    def _queued_ms(self) -> int:
        """The prebuffer less the packet that is just being sent."""
        return self.counters.prebuffer_ms - PACKET_MS

    def _count(self, packets: int) -> None:
        if packets > 0:
            self.counters.added_packets += packets
        elif self._speaking:
            self.counters.shed_speech_packets -= packets
        else:
            self.counters.shed_packets -= packets
        self._shift_waits(packets * PACKET_MS)

    def _shift_waits(self, by_ms: float) -> None:
        """What waited before would have been so much more or less; the frames to come find it so."""
        self._waits_ms = deque((max(0.0, wait + by_ms) for wait in self._waits_ms), STANDING_FRAMES)

    def _joined(self, pcm: Pcm) -> Pcm:
        """Where the piece does not follow what was sent, fades into it from what would have followed."""
        if self._after is not None:
            pcm = np.concatenate([_crossfade(self._after, pcm[:FADE_SAMPLES]), pcm[FADE_SAMPLES:]])
            self._after = None
        self._last = float(pcm[-1])
        return pcm


def _respliced(pcm: Pcm, samples: int) -> Pcm:
    """A frame longer by so many samples, or shorter where they are negative; both its ends stay as they are.

    It jumps once, ahead or back, with a crossfade, where the two places differ least.
    """
    windows = sliding_window_view(pcm, FADE_SAMPLES)[::SEARCH_STEP_SAMPLES]
    apart = abs(samples) // SEARCH_STEP_SAMPLES
    early = int(np.argmin(np.square(windows[apart:] - windows[: len(windows) - apart]).sum(axis=1)))
    first, second = early * SEARCH_STEP_SAMPLES, early * SEARCH_STEP_SAMPLES + abs(samples)
    leave, land = (first, second) if samples < 0 else (second, first)
    faded = _crossfade(pcm[leave : leave + FADE_SAMPLES], pcm[land : land + FADE_SAMPLES])
    return np.concatenate([pcm[:leave], faded, pcm[land + FADE_SAMPLES :]])


def _crossfade(old: Pcm, new: Pcm) -> Pcm:
    """From all of the one to all of the other, float32 [FADE_SAMPLES] each."""
    ramp = np.linspace(0.0, 1.0, FADE_SAMPLES, dtype=np.float32)
    return old * (1 - ramp) + new * ramp


def _rms(pcm: Pcm) -> float:
    return float(np.sqrt(np.mean(np.square(pcm))))
