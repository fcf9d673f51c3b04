"""A frame for every talk each 80 ms, whatever the others do; a step that is too slow drops the oldest, and says so."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from support.engine import BROKEN, ProbeStepper, Talker, join_talking, pace, until

from personaplex_app.audio import FRAME_RATE_HZ, FRAME_SECONDS, Pcm
from personaplex_app.engine.echo import EchoStep
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.loop_events import TickReport
from personaplex_app.engine.talk_queues import HEARD_FRAMES
from personaplex_app.web.call_view import status_words

pytestmark = pytest.mark.timed

AGE_SECONDS = 0.4
SLOW_STEP_SECONDS = 0.12


def _stepped(talkers: list[Talker]) -> list[int]:
    return [talker.session.counters.stepped for talker in talkers]


def test_two_paced_sessions_each_get_their_frames() -> None:
    with Engine(ProbeStepper(slots=2)) as engine:
        talkers = [join_talking(engine) for _ in range(2)]
        pace(5, lambda index: [talker.say(1) for talker in talkers], talkers)
        before, began = _stepped(talkers), time.monotonic()
        pace(38, lambda index: [talker.say(1) for talker in talkers], talkers)
        seconds = time.monotonic() - began
        rates = [(after - at) / seconds for at, after in zip(before, _stepped(talkers), strict=True)]
    assert rates == [pytest.approx(FRAME_RATE_HZ, abs=2)] * 2
    assert all(talker.session.counters.heard_dropped == 0 for talker in talkers)


def test_a_tick_that_went_by_without_a_session_is_counted_as_missed() -> None:
    with Engine(ProbeStepper(slots=2)) as engine:
        steady, limping = (join_talking(engine) for _ in range(2))

        def say(index: int) -> None:
            steady.say(1)
            if index % 2:
                limping.say(1)

        pace(30, say, [steady, limping])
    ticks, counters = steady.session.counters.stepped, limping.session.counters
    assert steady.session.counters.missed <= 2 and counters.missed >= 8
    assert counters.stepped + counters.missed == pytest.approx(ticks, abs=4)


def test_a_microphone_that_pauses_hears_silence_and_holds_nobody_up() -> None:
    stepper = ProbeStepper(slots=2)
    with Engine(stepper) as engine:
        steady, pausing = (join_talking(engine) for _ in range(2))
        pace(5, lambda index: [talker.say(0.5) for talker in (steady, pausing)], [steady, pausing])
        before = steady.session.counters.stepped, pausing.session.counters.silence_filled
        pace(10, lambda index: steady.say(0.5), [steady, pausing])
        filled = pausing.session.counters.silence_filled - before[1]
        assert steady.session.counters.stepped - before[0] >= 8
        pace(5, lambda index: [talker.say(0.25) for talker in (steady, pausing)], [steady, pausing])
        until(lambda: pausing.values[-1] == 0.25)
    assert 3 <= filled <= 9, "silence after a moment's patience, at the pace of time"
    assert steady.session.counters.heard_dropped == 0
    assert {heard.value for heard in stepper.heard if heard.slot == 1} == {0.0, 0.25, 0.5}


def test_a_session_without_any_sound_goes_on_at_the_pace_of_time() -> None:
    with Engine(ProbeStepper(slots=1)) as engine:
        quiet = join_talking(engine)
        pace(25, lambda index: None, [quiet])
    counters = quiet.session.counters
    assert counters.stepped == counters.silence_filled == pytest.approx(22, abs=4)


def test_steps_slower_than_time_keep_what_is_heard_young_and_say_so() -> None:
    stepper = ProbeStepper(slots=1, step_seconds=SLOW_STEP_SECONDS)
    with Engine(stepper) as engine:
        talker = join_talking(engine)

        def say(index: int) -> None:
            talker.said_at[index + 1] = time.monotonic()
            talker.say(index + 1)

        pace(40, say, [talker])
        words = status_words(talker.session)
        dropped = talker.session.counters.heard_dropped
    ages = sorted(heard.at - talker.said_at[int(heard.value)] for heard in stepper.heard if heard.value)
    assert ages[int(0.95 * len(ages))] <= AGE_SECONDS and ages[-1] <= AGE_SECONDS + FRAME_SECONDS
    assert dropped >= 5 and f"slower than real time here: about {round(dropped * FRAME_SECONDS) or 1} s of" in words
    assert talker.session.counters.heard == dropped + len(ages) + talker.session.queues.waiting[0]


def test_the_heard_queue_is_never_longer_than_three() -> None:
    stepper = ProbeStepper(slots=1, step_seconds=SLOW_STEP_SECONDS)
    longest = 0
    with Engine(stepper) as engine:
        talker = join_talking(engine)
        for index in range(200):
            talker.say(index)
            longest = max(longest, talker.session.queues.waiting[0])
            time.sleep(0.002)
    assert longest == HEARD_FRAMES and talker.session.counters.heard_dropped > 150


def test_a_newcomer_s_prompt_holds_the_others_up_once() -> None:
    """One newcomer a round: with two at the door, those who talk get a tick between the two prompts."""
    stepper = ProbeStepper(slots=3, prime_seconds=0.2)
    with Engine(stepper) as engine:
        talker = join_talking(engine)
        newcomers = [Talker(engine, engine.join(talker.session.choices)) for _ in range(2)]
        pace(10, lambda index: talker.say(1), [talker])
        until(lambda: all(newcomer.session.counters.stepped for newcomer in newcomers))
        first_tick_of = [next(heard.at for heard in stepper.heard if heard.slot == slot) for slot in (1, 2)]
    between = [heard for heard in stepper.heard if heard.slot == 0 and heard.at < min(first_tick_of)]
    assert between and talker.session.counters.heard_dropped <= 3


def test_the_engine_s_speed_is_measured() -> None:
    with Engine(ProbeStepper(slots=1, step_seconds=0.03)) as engine:
        talker = join_talking(engine)
        pace(6, lambda index: talker.say(1), [talker])
        assert 30 <= engine.status.step_ms < 80


class RowCostStepper(ProbeStepper):
    """Each row costs its time, and the first step much more."""

    steps: list[dict[int, float]]

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        self.steps = [*getattr(self, "steps", []), {slot: float(pcm[0]) for slot, pcm in heard.items()}]
        time.sleep((len(heard) - 1) * self.step_seconds + (0.2 if len(self.steps) == 1 else 0.0))
        return super().step(heard)


def test_the_speed_is_known_before_anybody_talks() -> None:
    stepper = RowCostStepper(slots=2, step_seconds=0.02)
    engine = Engine(stepper)
    assert engine.status.step_ms == 0
    measured = engine.measure(3)
    assert 40 <= measured < 80 and engine.status.step_ms == measured, "that of a full house, without the first step"
    assert stepper.steps == [{0: 0.0, 1: 0.0}] * 4, "silence in every slot"
    assert not stepper.sampling and not stepper.counts and engine.status.free == 2, "and the slots are as new"
    with engine:
        assert engine.status.step_ms == measured
        with pytest.raises(RuntimeError, match="belongs to the tick thread"):
            engine.measure()


@pytest.mark.parametrize("method", ["prime", "step", "release"])
def test_a_stepper_that_fails_while_it_is_measured_says_so(method: str) -> None:
    stepper = ProbeStepper(slots=1)
    stepper.fails.add(method)
    with pytest.raises(RuntimeError, match=BROKEN):
        Engine(stepper).measure()


def test_each_tick_is_reported_with_who_talked_and_who_was_passed_over() -> None:
    reports: list[TickReport] = []
    with Engine(ProbeStepper(slots=3, step_seconds=0.01), on_tick=reports.append) as engine:
        talkers = [join_talking(engine) for _ in range(2)]
        assert engine.status.talking == 2
        pace(20, lambda index: [talker.say(1) for talker in talkers[: 1 + index % 2]], talkers)
        engine.leave(talkers[1].session)
        until(lambda: engine.status.free == 2)
        assert engine.status.talking == 1
    counters = [talker.session.counters for talker in talkers]
    assert {report.talking for report in reports} <= {1, 2} and any(report.talking == 2 for report in reports)
    assert sum(report.missed for report in reports) == sum(each.missed for each in counters) > 0
    assert sum(report.talking - report.missed for report in reports) == sum(each.stepped for each in counters)
    assert all(report.seconds >= 0.01 for report in reports)


def test_whoever_counts_ticks_cannot_end_talks(caplog: pytest.LogCaptureFixture) -> None:
    def fail(report: TickReport) -> None:
        raise RuntimeError("a metric that is none")

    with Engine(ProbeStepper(slots=1), on_tick=fail) as engine:
        talker = join_talking(engine)
        pace(3, lambda index: talker.say(1), [talker])
        until(lambda: talker.values.count(1) >= 3)
        assert not engine.status.failed
    assert "a tick could not be reported" in caplog.text
