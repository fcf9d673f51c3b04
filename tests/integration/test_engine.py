"""A session's life over the real tick thread: join, talk, leave; slots come free in time and nobody hears another."""

from __future__ import annotations

import threading
import time

import pytest
from support.engine import (
    CHOICES,
    ProbeStepper,
    Talker,
    drained,
    is_over,
    is_talking,
    join_talking,
    join_when_free,
    pace,
    until,
)

from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine import tick_loop
from personaplex_app.engine.echo import EchoStepper
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.engine.session import SessionState
from personaplex_app.engine.slots import full_sentence
from personaplex_app.errors import InvalidInput, NoCapacity

REFUSAL_SECONDS = 0.5
LEAVE_SECONDS = 1.0


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=2)


def _fill(engine: Engine) -> list[Talker]:
    return [join_talking(engine) for _ in range(engine.status.slots)]


@pytest.mark.timed
def test_what_was_heard_comes_back_in_order(engine: Engine, stepper: ProbeStepper) -> None:
    talker = join_talking(engine)
    pace(15, lambda index: talker.say(index + 1), [talker])
    until(lambda: len(talker.collect()) >= 15)
    assert [value for value in talker.values if value] == list(range(1, 16))
    assert [frame.index for frame in talker.spoken] == list(range(len(talker.spoken)))
    assert stepper.threads == {"tick"}, "one thread touches the stepper"


def test_a_visitor_too_many_is_refused_at_once_and_in_words(engine: Engine) -> None:
    _fill(engine)
    for ask in (lambda: engine.join(CHOICES), engine.check_capacity):
        began = time.monotonic()
        with pytest.raises(NoCapacity) as refused:
            ask()
        assert time.monotonic() - began < REFUSAL_SECONDS
        assert refused.value.sentence == full_sentence(2)


def test_a_refusal_does_not_wait_for_priming_or_a_step() -> None:
    with Engine(EchoStepper(1, prime_seconds=1.5)) as engine:
        engine.join(CHOICES)
        time.sleep(0.1)
        began = time.monotonic()
        with pytest.raises(NoCapacity, match="one line only"):
            engine.join(CHOICES)
        assert time.monotonic() - began < REFUSAL_SECONDS


def test_choices_that_cannot_be_used_take_no_slot(engine: Engine) -> None:
    with pytest.raises(InvalidInput, match="no voices of its own"):
        engine.join(Choices("", "NATF0", SamplingSettings(), 1))
    assert engine.status.free == 2


@pytest.mark.timed
def test_leaving_frees_the_slot_within_a_second(engine: Engine, stepper: ProbeStepper) -> None:
    talkers = _fill(engine)
    engine.leave(talkers[0].session)
    assert until(lambda: engine.status.free == 1, LEAVE_SECONDS) < LEAVE_SECONDS
    assert talkers[0].session.ended_because == YOU_STOPPED
    assert talkers[1].session.state is SessionState.TALKING and set(stepper.sampling) == {1}
    assert join_talking(engine).session.tenancy == (type(talkers[0].session.tenancy))(0, 2)


def test_leaving_twice_or_after_the_end_changes_nothing(engine: Engine) -> None:
    first, second = (talker.session for talker in _fill(engine))
    for because in ("once", "twice"):
        engine.leave(first, because)
    until(lambda: engine.status.free == 1)
    engine.leave(first, "late")
    time.sleep(0.1)
    assert first.ended_because == "once" and is_talking(second) and engine.status.free == 1


def test_a_visitor_who_leaves_while_priming_frees_the_slot_for_the_next() -> None:
    with Engine(EchoStepper(1, prime_seconds=1.0)) as engine:
        first = engine.join(CHOICES)
        time.sleep(0.2)
        engine.leave(first)
        with pytest.raises(NoCapacity):
            engine.join(CHOICES)
        second = join_when_free(engine, 3.0)
        assert second.tenancy.generation == first.tenancy.generation + 1
        until(lambda: is_talking(second))
        assert is_over(first)


def test_a_step_under_way_when_its_visitor_leaves_never_reaches_the_next() -> None:
    stepper = ProbeStepper(slots=1)
    with Engine(stepper) as engine:
        leaver = join_talking(engine)
        with stepper.stopped():
            leaver.say(0.5)
            until(lambda: stepper.heard)
            engine.leave(leaver.session)
            with pytest.raises(NoCapacity):
                engine.join(CHOICES)
        follower = Talker(engine, join_when_free(engine, LEAVE_SECONDS))
        until(lambda: is_talking(follower.session))
        pace(5, lambda index: follower.say(0.25), [follower])
        assert set(follower.values) <= {0.0, 0.25} and 0.25 in follower.values


def test_a_slot_is_wiped_before_it_is_given_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stepper, wiped = ProbeStepper(slots=1), threading.Event()
    monkeypatch.setattr(stepper, "release", lambda slot: wiped.wait(20))
    with Engine(stepper) as engine:
        engine.leave(join_talking(engine).session)
        time.sleep(0.2)
        with pytest.raises(NoCapacity):
            engine.join(CHOICES)
        wiped.set()
        assert join_when_free(engine, LEAVE_SECONDS).tenancy.generation == 2


@pytest.mark.timed
def test_two_sessions_never_hear_each_other(engine: Engine, stepper: ProbeStepper) -> None:
    low, high = _fill(engine)

    def say(index: int) -> None:
        low.say(0.25)
        if index % 3:  # the other comes at a pace of its own
            high.say(0.75)

    pace(25, say, [low, high])
    assert set(low.values) <= {0.0, 0.25} and low.values.count(0.25) >= 20
    assert set(high.values) <= {0.0, 0.75} and high.values.count(0.75) >= 12
    assert {heard.value for heard in stepper.heard if heard.slot == 0} <= {0.0, 0.25}


def test_sampling_is_applied_in_the_slot_that_asked_and_named_with_its_frame(
    engine: Engine, stepper: ProbeStepper
) -> None:
    asking, other = _fill(engine)
    wanted = SamplingSettings(audio_temperature=0.1)

    def say(index: int) -> None:
        if index == 5:
            asking.session.want_sampling(wanted)
        asking.say(1)
        other.say(1)

    pace(10, say, [asking, other])
    until(lambda: asking.session.applied.sampling == wanted)
    assert 3 <= asking.session.applied.from_frame <= 9
    assert stepper.sampling == {0: wanted, 1: CHOICES.sampling}
    assert other.session.applied.sampling == CHOICES.sampling


def test_twenty_starts_and_stops_leave_nothing_behind(engine: Engine, stepper: ProbeStepper) -> None:
    threads = threading.active_count()
    for _ in range(20):
        talker = join_talking(engine)
        talker.say(1)
        until(lambda talker=talker: talker.values)
        engine.leave(talker.session)
        until(lambda: engine.status.free == 2)
    assert threading.active_count() == threads and not stepper.sampling
    assert engine._roster.sessions == [], "no session is kept"


def test_stop_ends_every_talk_in_words_and_joins_the_threads() -> None:
    before = set(threading.enumerate())
    engine = Engine(EchoStepper(2, prime_seconds=0.2))
    engine.start()
    talking = join_talking(engine).session
    priming = engine.join(CHOICES)
    engine.stop()
    assert set(threading.enumerate()) == before
    assert [session.ended_because for session in (talking, priming)] == [tick_loop.CLOSING] * 2
    assert drained(priming) == []
