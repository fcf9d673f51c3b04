"""A talk's clock: silence and the limit are warned of once, then they end the talk."""

from __future__ import annotations

import pytest

from personaplex_app.engine.call_clock import NEVER, CallClock, CallLimits, Notice

NOW = 5_000.0


def _clock(lasted: float = 0.0, **limits: float) -> CallClock:
    return CallClock(CallLimits(**limits), NOW - lasted, NOW)


def _notices(clock: CallClock, seconds: float, spoke_every: float = NEVER) -> list[tuple[float, Notice]]:
    """What it says within so many seconds, looked at four times a second, and when."""
    found: list[tuple[float, Notice]] = []
    for quarter in range(1, int(4 * seconds) + 1):
        at = quarter / 4
        if at % spoke_every == 0:
            clock.spoke(NOW + at)
        notice = clock.check(NOW + at)
        if notice is not None:
            found.append((at, notice))
            if notice.over:
                break
    return found


def test_silence_is_warned_of_at_sixty_seconds_and_ends_at_ninety() -> None:
    (warned_at, warning), (ended_at, end) = _notices(_clock(), 200)
    assert (warned_at, warning.code, warning.seconds, warning.over) == (60, "idle", 30, False)
    assert warning.sentence == "Are you still there? Say something, or the talk ends in 30 s."
    assert (ended_at, end) == (90, Notice("idle", "Nothing was said for 90 s.", over=True))


def test_who_speaks_is_not_asked() -> None:
    assert _notices(_clock(), 1_700, spoke_every=59) == []


def test_a_word_after_the_warning_begins_anew() -> None:
    clock = _clock()
    found = _notices(clock, 300, spoke_every=70)
    assert [(at, notice.over) for at, notice in found] == [(60, False), (130, False), (200, False), (270, False)]
    assert not clock.warned_of_idle
    clock.check(NOW + 340)
    assert clock.warned_of_idle


def test_the_limit_is_warned_of_a_minute_before() -> None:
    (warned_at, warning), (ended_at, end) = _notices(_clock(), 2_000, spoke_every=10)
    assert (warned_at, warning.code, warning.seconds, warning.over) == (1740, "limit", 60, False)
    assert warning.sentence == "A talk here lasts 30 minutes at most: 60 s are left."
    assert (ended_at, end) == (1800, Notice("limit", "The talk has reached its 30 minutes.", over=True))


def test_a_resumed_talk_has_lasted_already() -> None:
    clock = _clock(lasted=1_770)
    assert clock.lasted_seconds(NOW) == 1_770
    first = clock.check(NOW)
    assert first is not None and (first.code, first.seconds, first.over) == ("limit", 30, False)
    assert clock.check(NOW + 1) is None, "once"
    end = clock.check(NOW + 30)
    assert end is not None and end.over


def test_an_end_comes_before_a_warning() -> None:
    clock = _clock(lasted=100, call_seconds=90)
    end = clock.check(NOW + 61)
    assert end is not None and (end.code, end.over) == ("limit", True)


@pytest.mark.parametrize(("seconds", "words"), [(90, "90 seconds"), (119, "119 seconds"), (120, "2 minutes")])
def test_lengths_are_said_in_fitting_units(seconds: float, words: str) -> None:
    end = _clock(call_seconds=seconds).check(NOW + seconds)
    assert end is not None and end.sentence == f"The talk has reached its {words}."


def test_it_says_how_long_the_visitor_has_been_silent() -> None:
    clock = _clock()
    assert clock.silent_seconds(NOW + 12) == 12
    clock.spoke(NOW + 12)
    assert clock.silent_seconds(NOW + 15) == 3


def test_no_limit_is_no_limit() -> None:
    assert _notices(_clock(call_seconds=NEVER, idle_end_seconds=NEVER, idle_warning_seconds=NEVER), 20_000) == []
