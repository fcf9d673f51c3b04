"""The echo guard with real synthetic speech: leaks are found soon and measured, normal talk is none."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np
import pytest
from support.two_voices import (
    HIGH,
    LOW,
    USUAL,
    hiss,
    leaked,
    monologue,
    pairs,
    repeats,
    samples,
    tune,
    turns,
)

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS, Pcm
from personaplex_app.engine.echo_guard import BEGAN, HEADPHONES, OVER, OVER_NOW, EchoGuard, Leak

WAY_MS = 150  # from a step to the loudspeaker, and from the microphone to a step
SECONDS = 30


def watched(heard: Pcm, spoken: Pcm) -> list[Leak]:
    guard = EchoGuard()
    found = (guard.saw(*pair) for pair in pairs(heard, spoken))
    return [leak for leak in found if leak is not None]


def persona_seconds(spoken: Pcm, frame: int) -> float:
    """How long the persona has spoken up to a frame."""
    loud = np.abs(spoken[: frame * FRAME_SAMPLES].reshape(frame, FRAME_SAMPLES)).max(axis=1) > 0.01
    return float(loud.sum()) * FRAME_SECONDS


def interjections(seed: int, seconds: float) -> Pcm:
    """A user who says something now and then."""
    return monologue(seed, seconds, LOW, pauses=(4.0, 9.0))


@pytest.mark.parametrize("level_db", [-12, -20, -30])
def test_a_leak_is_found_within_seconds_of_the_persona_s_speech(level_db: int) -> None:
    for delay_ms, talks in itertools.product((50, 130, 220, 310, 400), (False, True)):
        spoken = monologue(delay_ms, SECONDS)
        heard = leaked(1, spoken, delay_ms + WAY_MS, level_db) + hiss(2, SECONDS, -60)
        found = watched(heard + interjections(3, SECONDS) if talks else heard, spoken)
        assert [leak.action for leak in found] == [BEGAN], (delay_ms, talks)
        assert persona_seconds(spoken, found[0].frame) < (15 if talks else 5), (delay_ms, talks, found)
        assert abs(found[0].lag_ms - delay_ms - WAY_MS) <= 30, (delay_ms, talks, found)
        assert abs(found[0].level_db - level_db) <= 4, (delay_ms, talks, found)
        assert found[0].sentence == HEADPHONES


def test_a_leak_in_a_noisy_room_and_one_that_comes_very_late_are_found_later() -> None:
    spoken = monologue(7, 45)
    noisy = leaked(1, spoken, 300, -20) + hiss(2, 45, -50) + interjections(3, 45)
    late = leaked(1, spoken, 820, -20) + hiss(2, 45, -60)
    for heard, lag_ms in ((noisy, 300), (late, 820)):
        found = watched(heard, spoken)
        assert persona_seconds(spoken, found[0].frame) < 18
        assert abs(found[0].lag_ms - lag_ms) <= 30


def test_a_leak_is_over_when_headphones_are_on() -> None:
    spoken = monologue(4, 60)
    heard = leaked(1, spoken, 250, -15)
    heard[samples(20) :] = 0
    began, over = watched(heard + hiss(2, 60, -60), spoken)
    assert (began.action, over.action, over.sentence) == (BEGAN, OVER, OVER_NOW)
    assert began.frame * FRAME_SECONDS < 10
    assert 0 < persona_seconds(spoken, over.frame) - persona_seconds(spoken, 250) < 15


def normal_talk() -> Iterator[tuple[str, Pcm, Pcm]]:
    """Eleven minutes and more, of many shapes."""
    for seed, (user, persona) in enumerate([(LOW, USUAL), (USUAL, USUAL), (HIGH, LOW)]):
        heard, spoken = turns(seed, 60, user, persona)
        yield f"turns {seed}", heard + hiss(seed, 60, (-60, -45, -35)[seed]), spoken
        both = monologue(10 + seed, 60, user), monologue(20 + seed, 60, persona)
        yield f"both at once {seed}", both[0] * (1.0, 0.3, 2.0)[seed] + hiss(seed, 60, -60), both[1]
        yield f"repeats {seed}", *repeats(30 + seed, 60)
    spoken = monologue(40, 60)
    yield "silence", np.zeros_like(spoken), spoken
    yield "noise", hiss(0, 60, -30), spoken
    yield "music", tune(0, 60), spoken
    yield "the persona hums along", tune(0, 60), spoken + 0.3 * tune(1, 60)
    yield "a tone", (0.05 * np.sin(np.arange(len(spoken)) / 9)).astype(np.float32), spoken
    yield "nobody", hiss(0, 30, -50), np.zeros(samples(30), dtype=np.float32)
    said = monologue(50, 60, LOW) + hiss(1, 60, -60)
    yield "an echo engine", said, said.copy()
    late = np.concatenate([np.zeros(FRAME_SAMPLES, dtype=np.float32), said])[: len(said)]
    yield "one that is a frame late", said, late


def test_more_than_ten_minutes_of_normal_talk_give_no_alarm() -> None:
    seconds = 0.0
    for name, heard, spoken in normal_talk():
        assert watched(heard, spoken) == [], name
        seconds += len(heard) / 24_000
    assert seconds >= 600


def test_a_frame_costs_little() -> None:
    heard, spoken = turns(1, 20)
    guard, took = EchoGuard(), []
    for pair in pairs(heard, spoken):
        began = time.thread_time()
        guard.saw(*pair)
        took.append(time.thread_time() - began)
    assert np.median(took) < 0.001  # 0.1 ms here; a slower machine may take longer
