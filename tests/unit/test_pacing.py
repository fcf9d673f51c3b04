"""What waits to be played stays short whatever comes, what is shed is silence first, and no joint clicks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paced import LOUDNESS, Line, arrivals_ms, talk_frames, tone_frames

from personaplex_app.audio import FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm, silence
from personaplex_app.web.pacing import (
    CALM_FRAMES,
    FADE_SAMPLES,
    LEAST_PREBUFFER_MS,
    MOST_PREBUFFER_MS,
    MOST_WAITING_MS,
    PACKET_MS,
    PACKET_SAMPLES,
    QUIET_RMS,
    STANDING_FRAMES,
    SpokenPacer,
)

MOST_MS = MOST_WAITING_MS + FRAME_MS
TONE_HZ = 225.0  # whole turns in a frame, so that frames join each other and silence without a step of their own
TONE_JUMP = LOUDNESS * 2 * np.pi * TONE_HZ / SAMPLE_RATE_HZ  # the steepest step within the tone itself
JUMP = 2.1 * LOUDNESS / FADE_SAMPLES + TONE_JUMP  # and what a fade between two extremes adds
TONE = next(tone_frames(TONE_HZ))
HISS = (QUIET_RMS / 2 * np.random.default_rng(1).standard_normal(FRAME_SAMPLES)).astype(np.float32)


def _ms(pcm: Pcm | None) -> float:
    return 0.0 if pcm is None else 1000 * len(pcm) / SAMPLE_RATE_HZ


PIECES = st.lists(st.sampled_from(["tone", "quiet", "packet", "packet", "packet"]), max_size=300)


def _play(line: Line, pieces: list[str]) -> None:
    for piece in pieces:
        if piece == "packet":
            line.packet_passes()
        else:
            line.frame(TONE if piece == "tone" else silence())


@settings(deadline=None)
@given(PIECES)
def test_whatever_comes_little_waits_and_nothing_clicks(pieces: list[str]) -> None:
    line = Line()
    _play(line, pieces)
    assert line.longest_ms <= MOST_MS
    assert line.largest_jump <= JUMP
    assert LEAST_PREBUFFER_MS <= line.pacer.counters.prebuffer_ms <= MOST_PREBUFFER_MS


@settings(deadline=None)
@given(PIECES)
def test_every_frame_is_sent_shed_or_counted(pieces: list[str]) -> None:
    line = Line()
    _play(line, pieces)
    counted = line.pacer.counters
    frames = sum(piece != "packet" for piece in pieces) - counted.dropped_frames
    packets = counted.filled_packets + counted.added_packets - counted.shed_packets - counted.shed_speech_packets
    assert sum(map(len, line.sent[1:])) == frames * FRAME_SAMPLES + packets * PACKET_SAMPLES


@pytest.mark.parametrize("waiting_ms", [0, 20, 99, 100, 100.1, 120, 5000])
@pytest.mark.parametrize("frame", [TONE, HISS], ids=["tone", "hiss"])
def test_waiting_and_frame_are_at_most_180_ms_at_first(waiting_ms: float, frame: Pcm) -> None:
    piece = SpokenPacer().frame(frame, waiting_ms)
    assert (piece is None) == (waiting_ms > 100)
    assert waiting_ms + _ms(piece) <= 180 or piece is None


def test_with_a_large_prebuffer_more_may_wait_but_never_more_than_the_bound() -> None:
    pacer = SpokenPacer()
    for _ in range(10):
        pacer.frame(TONE, 0)
        pacer.fill()
    assert pacer.counters.prebuffer_ms == MOST_PREBUFFER_MS and pacer.most_waiting_ms == MOST_WAITING_MS
    assert pacer.frame(TONE, MOST_WAITING_MS) is not None and pacer.frame(TONE, MOST_WAITING_MS + 1) is None


def test_a_quiet_frame_is_cut_where_delay_stands_and_where_a_burst_comes() -> None:
    standing = [_ms(SpokenPacer().frame(HISS, waiting)) for waiting in (0, 19, 20, 40, 60, 80, 100)]
    assert standing == [80, 80, 60, 40, 20, 20, 20], "the first frame is all there is to judge by"
    pacer = SpokenPacer()
    pacer.frame(HISS, 0)
    assert [_ms(pacer.frame(HISS, waiting)) for waiting in (60, 79)] == [80, 80], "a frame that comes early is no delay"
    assert _ms(pacer.frame(HISS, 100)) == 60, "a whole frame and more is a burst"
    assert pacer.counters.shed_packets == 1


def test_silence_is_cut_before_speech_and_speech_only_where_delay_stands_for_long() -> None:
    pacer = SpokenPacer()
    assert [_ms(pacer.frame(TONE, 80)) for _ in range(STANDING_FRAMES - 1)] == [80] * (STANDING_FRAMES - 1)
    assert _ms(pacer.frame(HISS, 80)) == 20, "the pause is where it goes"
    assert pacer.counters.shed_speech_packets == 0 and pacer.counters.shed_packets == 3
    pacer = SpokenPacer()
    lengths = [_ms(pacer.frame(TONE, 80)) for _ in range(STANDING_FRAMES)]
    assert lengths == [80] * (STANDING_FRAMES - 1) + [60]
    assert (pacer.counters.shed_speech_packets, pacer.counters.shed_packets, pacer.counters.dropped_frames) == (1, 0, 0)


def test_what_waits_at_the_prebuffer_s_height_is_left_alone() -> None:
    pacer = SpokenPacer()
    for waiting in [0, 10, 0, 19, 0, 5] * 5:
        assert np.array_equal(pacer.frame(HISS, waiting)[FADE_SAMPLES:], HISS[FADE_SAMPLES:])


def test_a_prebuffer_that_grew_is_filled_in_quiet() -> None:
    pacer = SpokenPacer()
    for _ in range(2):
        pacer.frame(TONE, 0)
        pacer.fill()
    assert pacer.counters.prebuffer_ms == 60
    assert [_ms(pacer.frame(HISS, waiting)) for waiting in (0, 20, 40, 40)] == [100, 100, 80, 80]
    assert pacer.counters.added_packets == 2


def test_a_gap_fades_out_and_the_next_frame_fades_in() -> None:
    pacer = SpokenPacer()
    high = np.full(FRAME_SAMPLES, LOUDNESS, dtype=np.float32)
    pieces = [pacer.frame(high, 0), pacer.fill(), pacer.fill(), pacer.frame(high, 0), pacer.frame(high, 0)]
    faded, quiet, resumed, whole = pieces[1:]
    assert faded[0] == pytest.approx(LOUDNESS) and not faded[FADE_SAMPLES:].any() and np.all(np.diff(faded) <= 0)
    assert len(faded) == PACKET_SAMPLES and not quiet.any()
    assert resumed[0] == 0 and np.all(np.diff(resumed) >= -1e-6) and np.array_equal(whole, high)
    assert float(np.abs(np.diff(np.concatenate(pieces))).max()) <= 1.1 * LOUDNESS / FADE_SAMPLES
    assert np.all(high == np.float32(LOUDNESS)), "what was handed in is not written to"


def test_a_dropped_frame_is_faded_over_from_what_would_have_followed() -> None:
    pacer, frames = SpokenPacer(), tone_frames(440.0)
    first = pacer.frame(next(frames), 0)
    dropped, after = next(frames), next(frames)
    assert pacer.frame(dropped, 999) is None
    joined = pacer.frame(after, 0)
    assert joined[0] == pytest.approx(dropped[0], abs=1e-6) and np.array_equal(
        joined[FADE_SAMPLES:], after[FADE_SAMPLES:]
    )
    assert abs(joined[0] - first[-1]) <= LOUDNESS * 2 * np.pi * 440 / SAMPLE_RATE_HZ


def test_the_prebuffer_grows_where_speech_was_torn_and_only_there() -> None:
    pacer = SpokenPacer()
    for _ in range(5):
        pacer.frame(silence(), 0)
        pacer.fill()
    assert (pacer.counters.prebuffer_ms, pacer.counters.torn) == (20, 0)
    grown = []
    for _ in range(6):
        pacer.frame(TONE, 0)
        pacer.fill()
        pacer.fill()
        grown.append(pacer.counters.prebuffer_ms)
    assert grown == [40, 60, 80, 100, 120, 120] and pacer.counters.torn == 6
    assert pacer.counters.filled_packets == 5 + 12


def test_the_prebuffer_shrinks_a_packet_every_ten_seconds_in_which_one_was_left() -> None:
    pacer = SpokenPacer()
    for _ in range(2):
        pacer.frame(TONE, 0)
        pacer.fill()
    assert pacer.counters.prebuffer_ms == 60 and CALM_FRAMES * FRAME_MS == 10_000
    for _ in range(2 * CALM_FRAMES):
        pacer.frame(TONE, 0)
    assert pacer.counters.prebuffer_ms == 60, "a packet less would have torn"
    widths = [pacer.counters.prebuffer_ms for _ in range(3 * CALM_FRAMES) if pacer.frame(TONE, 20) is not None]
    assert widths == [60] * (CALM_FRAMES - 1) + [40] * CALM_FRAMES + [20] * (CALM_FRAMES + 1)


def test_half_a_minute_of_tone_comes_out_as_it_went_in() -> None:
    line, frames = Line(), tone_frames(440.0)
    line.run(tone_frames(440.0), arrivals_ms(375, FRAME_MS, 0, {}, 0))
    said = np.concatenate([next(frames) for _ in range(375)])
    assert np.array_equal(line.sound[2 + FADE_SAMPLES :], said[FADE_SAMPLES:])


@pytest.mark.parametrize("kept", [7, 25, 0], ids=["seven frames", "all frames", "nothing"])
@pytest.mark.parametrize("made", [lambda: tone_frames(TONE_HZ), lambda: talk_frames(4)], ids=["tone", "talk"])
def test_a_second_after_a_stall_of_two_the_delay_is_back(made, kept: int) -> None:
    """Of the frames of the stall so many come at once at its end, the last ones."""
    times = [80.0 * index for index in range(100)]
    stalled = [time for time in times if 3_000 <= time < 5_000]
    lost = stalled[: len(stalled) - kept]
    arriving = [5_000.0 if time in stalled else time for time in times if time not in lost]
    line = Line()
    line.run(made(), arriving)
    after = [wait for wait, time in zip(line.waits_ms, arriving, strict=True) if time >= 6_000]
    assert max(after) <= 100 < 160, "what waits before a frame is what it comes late"
    assert line.pacer.counters.filled_packets >= 90 and line.longest_ms <= MOST_MS


SKEWS_MS = [79.9, 80.0, 80.1]
STALLS = {100_000.0: 102_000.0, 300_000.0: 300_500.0, 420_000.0: 420_200.0}


@pytest.mark.parametrize("period_ms", SKEWS_MS)
@pytest.mark.parametrize("made", [lambda: tone_frames(TONE_HZ), lambda: talk_frames(3)], ids=["tone", "talk"])
def test_ten_minutes_without_drift(made, period_ms: float) -> None:
    """Late frames, stalls and two clocks that differ; the delay of the last minute is that of the first."""
    times = arrivals_ms(int(600_000 / period_ms), period_ms, 5.0, STALLS, 5)
    line = Line()
    line.run(made(), times)
    waits, at = np.array(line.waits_ms), np.array(times)
    drift_ms_per_minute = float(np.polyfit(at / 60_000, waits, 1)[0])
    assert abs(drift_ms_per_minute) <= 1.0
    for minute in (waits[at < 60_000], waits[at >= 540_000]):
        assert np.mean(minute) <= 40 and np.percentile(minute, 99) <= 60
    assert line.longest_ms <= MOST_MS
    for end in STALLS.values():
        assert waits[(at >= end + 1_000) & (at < end + 3_000)].max() <= 160
    played_ms = 1000 * len(line.sound) / SAMPLE_RATE_HZ - line.waiting_ms
    assert played_ms == pytest.approx(times[-1] + FRAME_MS, abs=2 * FRAME_MS)


@pytest.mark.parametrize("loud", [True, False])
def test_a_producer_half_too_fast_piles_nothing_up(loud: bool) -> None:
    line = Line()
    frames = tone_frames(TONE_HZ) if loud else itertools.repeat(HISS)
    line.run(frames, arrivals_ms(187, FRAME_MS / 1.5, 0, {}, 0))
    counted = line.pacer.counters
    assert line.longest_ms <= MOST_MS
    assert counted.dropped_frames and not counted.shed_packets if loud else counted.shed_packets
    too_much_ms = counted.dropped_frames * FRAME_MS + (counted.shed_packets + counted.shed_speech_packets) * PACKET_MS
    assert too_much_ms == pytest.approx(5000, abs=300), "what was too much is counted"
