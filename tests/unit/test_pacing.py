"""What waits to be played stays short whatever comes, what is shed is silence first, and no joint clicks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personaplex_app.audio import FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm, silence
from personaplex_app.web.pacing import (
    CALM_FRAMES,
    FADE_SAMPLES,
    LARGEST_CUSHION_MS,
    MOST_WAITING_MS,
    PACKET_MS,
    PACKET_SAMPLES,
    QUIET_RMS,
    SpokenPacer,
)

MOST_MS = MOST_WAITING_MS + FRAME_MS
LOUD = 0.3
TONE_HZ = 225.0  # whole turns in a frame, so that frames join each other and silence without a step of their own
TONE_JUMP = LOUD * 2 * np.pi * TONE_HZ / SAMPLE_RATE_HZ  # the steepest step within the tone itself
JUMP = 2.1 * LOUD / FADE_SAMPLES + TONE_JUMP  # and what a fade of 5 ms between two extremes adds


def _ms(pcm: Pcm) -> float:
    return 1000 * len(pcm) / SAMPLE_RATE_HZ


def _tone() -> Pcm:
    at = np.arange(FRAME_SAMPLES) / SAMPLE_RATE_HZ
    return (LOUD * np.sin(2 * np.pi * TONE_HZ * at)).astype(np.float32)


@dataclass
class Line:
    """A pacer, the sound that waits behind it, and all that was sent; time passes by packets of 20 ms."""

    pacer: SpokenPacer = field(default_factory=SpokenPacer)
    waiting_ms: float = 0.0
    longest_ms: float = 0.0
    sent: list[Pcm] = field(default_factory=lambda: [silence(2)])

    def frame(self, pcm: Pcm) -> None:
        piece = self.pacer.frame(pcm, self.waiting_ms)
        if piece is not None:
            self._send(piece)

    def packet_passes(self) -> None:
        """20 ms are played; where there is nothing, the gap is filled first."""
        if self.waiting_ms < PACKET_MS:
            self._send(self.pacer.fill())
        self.waiting_ms -= PACKET_MS

    def _send(self, piece: Pcm) -> None:
        self.sent.append(piece)
        self.waiting_ms += _ms(piece)
        self.longest_ms = max(self.longest_ms, self.waiting_ms)

    @property
    def largest_jump(self) -> float:
        return float(np.abs(np.diff(np.concatenate(self.sent))).max())


PIECES = st.lists(st.sampled_from(["tone", "quiet", "packet", "packet", "packet"]), max_size=300)


def _play(line: Line, pieces: list[str]) -> None:
    for piece in pieces:
        if piece == "packet":
            line.packet_passes()
        else:
            line.frame(_tone() if piece == "tone" else silence())


@settings(deadline=None)
@given(PIECES)
def test_whatever_comes_little_waits_and_nothing_clicks(pieces: list[str]) -> None:
    line = Line()
    _play(line, pieces)
    assert line.longest_ms <= MOST_MS
    assert line.largest_jump <= JUMP
    assert 0 <= line.pacer.cushion_ms <= LARGEST_CUSHION_MS


@settings(deadline=None)
@given(PIECES)
def test_every_frame_is_sent_shed_or_counted(pieces: list[str]) -> None:
    line = Line()
    _play(line, pieces)
    counters = line.pacer.counters
    sent = sum(map(len, line.sent[1:]))
    frames = sum(piece != "packet" for piece in pieces) - counters.dropped_frames
    assert sent == frames * FRAME_SAMPLES + (counters.filled_packets - counters.shed_packets) * PACKET_SAMPLES


@pytest.mark.parametrize("waiting_ms", [0, 20, 99, 100, 100.1, 120, 5000])
@pytest.mark.parametrize("loud", [True, False])
def test_waiting_and_frame_are_at_most_180_ms(waiting_ms: float, loud: bool) -> None:
    piece = SpokenPacer().frame(_tone() if loud else silence(), waiting_ms)
    assert (piece is None) == (waiting_ms > MOST_WAITING_MS)
    if piece is not None:
        assert waiting_ms + _ms(piece) <= MOST_MS == 180


def test_quiet_frames_are_shed_and_speech_is_not() -> None:
    quiet = np.full(FRAME_SAMPLES, QUIET_RMS / 2, dtype=np.float32)
    pacer = SpokenPacer()
    assert [_ms(pacer.frame(quiet, waiting)) for waiting in (0, 19, 20, 40, 60, 80, 100)] == [
        80,
        80,
        60,
        40,
        20,
        20,
        20,
    ]
    assert pacer.counters.shed_packets == 1 + 2 + 3 + 3 + 3
    pacer.cushion_ms = 40
    assert [_ms(pacer.frame(quiet, waiting)) for waiting in (0, 40, 60, 100)] == [80, 80, 60, 20], "less the cushion"
    assert all(_ms(pacer.frame(_tone(), waiting)) == 80 for waiting in (0, 40, 100))


def test_a_gap_fades_out_and_the_next_frame_fades_in() -> None:
    pacer = SpokenPacer()
    high = np.full(FRAME_SAMPLES, LOUD, dtype=np.float32)
    pieces = [pacer.frame(high, 0), pacer.fill(), pacer.fill(), pacer.frame(high, 0), pacer.frame(high, 0)]
    faded, quiet, resumed, whole = pieces[1:]
    assert faded[0] == pytest.approx(LOUD) and not faded[FADE_SAMPLES:].any() and np.all(np.diff(faded) <= 0)
    assert len(faded) == PACKET_SAMPLES and not quiet.any()
    assert resumed[0] == 0 and np.all(np.diff(resumed) >= 0) and np.array_equal(whole, high)
    assert float(np.abs(np.diff(np.concatenate(pieces))).max()) <= 1.1 * LOUD / FADE_SAMPLES
    assert np.all(high == np.float32(LOUD)), "what was handed in is not written to"


def test_the_cushion_grows_where_speech_was_torn_and_only_there() -> None:
    pacer = SpokenPacer()
    for _ in range(5):
        pacer.frame(silence(), 0)
        pacer.fill()
    assert (pacer.cushion_ms, pacer.counters.torn) == (0, 0)
    grown = []
    for _ in range(6):
        pacer.frame(_tone(), 0)
        pacer.fill()
        pacer.fill()
        grown.append(pacer.cushion_ms)
    assert grown == [20, 40, 60, 80, 80, 80] and pacer.counters.torn == 6
    assert pacer.counters.filled_packets == 5 + 12


def test_the_cushion_relaxes_a_packet_every_ten_calm_seconds() -> None:
    pacer = SpokenPacer()
    for _ in range(2):
        pacer.frame(_tone(), 0)
        pacer.fill()
    assert pacer.cushion_ms == 2 * PACKET_MS and CALM_FRAMES * FRAME_MS == 10_000
    widths = [pacer.cushion_ms for _ in range(3 * CALM_FRAMES) if pacer.frame(_tone(), 0) is not None]
    assert widths == [40] * (CALM_FRAMES - 1) + [20] * CALM_FRAMES + [0] * (CALM_FRAMES + 1)


def _produce(line: Line, seconds: float, frames_per_second: float, loud: bool = True) -> None:
    """Frames at a pace of their own beside packets at the pace of time."""
    made = 0
    for packet in range(int(seconds * 1000 / PACKET_MS)):
        while made < (packet + 1) * PACKET_MS / 1000 * frames_per_second:
            line.frame(_tone() if loud else silence())
            made += 1
        line.packet_passes()


@pytest.mark.parametrize("loud", [True, False])
def test_two_seconds_of_stall_leave_no_delay_behind(loud: bool) -> None:
    line = Line()
    _produce(line, 3, 12.5, loud)
    for _ in range(100):
        line.packet_passes()
    for _ in range(7):  # the three heard and the four spoken that a stall may leave, all at once
        line.frame(_tone() if loud else silence())
    _produce(line, 1, 12.5, loud)
    assert line.waiting_ms <= 160 and line.largest_jump <= JUMP
    assert line.pacer.counters.filled_packets >= 90


@pytest.mark.parametrize("loud", [True, False])
def test_a_producer_half_too_fast_piles_nothing_up(loud: bool) -> None:
    line = Line()
    _produce(line, 10, 1.5 * 12.5, loud)
    assert line.longest_ms <= MOST_MS and line.largest_jump <= JUMP
    counters = line.pacer.counters
    assert counters.dropped_frames if loud else counters.shed_packets
    dropped_ms = counters.dropped_frames * FRAME_MS + counters.shed_packets * PACKET_MS
    assert dropped_ms == pytest.approx(5000, abs=300), "what was too much is counted"
