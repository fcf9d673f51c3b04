"""Parked talks are bounded in time and bytes, and lie in host memory soon, which no step waits for."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from support.engine import CHOICES, ProbeStepper, until
from support.resume import LOST, assert_unknown, taken_up, talk_on, talked

from personaplex_app.engine.echo import EchoSaved
from personaplex_app.engine.facade import Engine
from personaplex_app.errors import ServerFault

SAVED_BYTES = EchoSaved.bytes


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=2)


class Clock:
    """Time that goes on by itself and can be pushed."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(stepper: ProbeStepper, clock: Clock) -> Iterator[Engine]:
    with Engine(stepper, clock=clock) as engine:
        yield engine


def test_a_grant_runs_out_and_its_state_is_let_go(timed: Engine, clock: Clock) -> None:
    talker = talked(timed, 2)
    timed.leave(talker.session, LOST, park=True)
    until(lambda: timed.parked.count == 1)
    clock.ahead += 24
    assert timed.can_resume(talker.session.grant)
    clock.ahead += 2
    until(lambda: not timed._lot._spaces, 2.0, "let go though nobody asks")
    assert_unknown(timed, talker.session.grant)
    assert timed.parked.expired == 1


def test_an_owner_in_line_keeps_the_grant(timed: Engine, clock: Clock) -> None:
    talker = talked(timed, 2)
    timed.leave(talker.session, LOST, park=True)
    until(lambda: timed.parked.count == 1)
    for _ in range(5):
        clock.ahead += 20
        assert timed.keep(talker.session.grant)
    talk_on(taken_up(timed, talker.session.grant), 1)
    assert not timed.keep(talker.session.grant) and not timed.keep("no such grant")


def test_nothing_is_parked_beyond_the_bound_and_the_oldest_goes_first(stepper: ProbeStepper) -> None:
    with Engine(stepper, parking_bytes=2 * SAVED_BYTES) as engine:
        grants = []
        for _ in range(4):
            talker = talked(engine, 1)
            engine.leave(talker.session, LOST, park=True)
            grants.append(talker.session.grant)
            until(lambda: engine.status.free == 2)
            assert engine.parked.bytes <= 2 * SAVED_BYTES
        assert [engine.can_resume(grant) for grant in grants] == [False, False, True, True]
        assert engine.parked.dropped == 2


def test_a_talk_larger_than_the_bound_is_not_kept(stepper: ProbeStepper) -> None:
    with Engine(stepper, parking_bytes=SAVED_BYTES - 1) as engine:
        talker = talked(engine, 1)
        engine.leave(talker.session, LOST, park=True)
        until(lambda: engine.status.free == 2)
        assert_unknown(engine, talker.session.grant)


def test_stop_lets_go_of_what_is_parked(stepper: ProbeStepper) -> None:
    engine = Engine(stepper)
    engine.start()
    talker = talked(engine, 1)
    engine.leave(talker.session, LOST, park=True)
    until(lambda: engine.parked.count == 1)
    engine.stop()
    assert engine.parked.count == 0
    with pytest.raises(ServerFault, match="shutting down"):
        engine.join(CHOICES)
