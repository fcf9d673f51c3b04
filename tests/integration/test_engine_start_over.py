"""A talk begins anew in its own slot: nobody gets it meanwhile, nothing of the talk before is left, and who sits beside
it notices nothing."""

from __future__ import annotations

import time

import pytest
from support.engine import CHOICES, ProbeStepper, Talker, is_over, is_talking, join_talking, pace, until
from support.resume import LOST, assert_unknown, say_into_a_step, talk_on, talked

from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine import tick_loop
from personaplex_app.engine.echo import EchoStepper
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.engine.roster import STARTED_OVER
from personaplex_app.engine.session import Counters, SessionState
from personaplex_app.errors import InvalidInput, NoCapacity, ServerFault, SessionEnded

ANEW = Choices("", "none", SamplingSettings(audio_temperature=0.1), 5_000)
AT_ONCE_SECONDS = 0.5


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=2)


def _begun(engine: Engine, talker: Talker, choices: Choices = ANEW) -> Talker:
    fresh = Talker(engine, engine.start_over(talker.session, choices))
    until(lambda: is_talking(fresh.session), what="priming done")
    return fresh


def test_it_has_a_slot_a_grant_and_a_count_of_its_own(engine: Engine, stepper: ProbeStepper) -> None:
    old = talked(engine)
    old.session.want_sampling(SamplingSettings(text_temperature=0.1))
    lasted = old.session.counters.stepped
    fresh = _begun(engine, old)
    assert (fresh.session.tenancy.slot, fresh.session.tenancy.generation) == (old.session.tenancy.slot, 2)
    assert (old.session.state, old.session.ended_because) == (SessionState.ENDED, STARTED_OVER)
    assert_unknown(engine, old.session.grant)
    assert engine.can_resume(fresh.session.grant) and not fresh.session.resumed and engine.parked.count == 0
    assert fresh.session.counters == Counters() and fresh.session.onlookers is not old.session.onlookers
    assert fresh.session.lasted_seconds == pytest.approx(lasted * 0.08), "the call goes on"
    talk_on(fresh)
    tokens = fresh.session.text_tokens
    assert tokens == list(range(ANEW.seed, ANEW.seed + len(tokens))) and stepper.sampling[0] == ANEW.sampling
    engine.leave(fresh.session, LOST, park=True)
    again = engine.resume(fresh.session.grant)
    assert again.lasted_seconds == pytest.approx((lasted + fresh.session.counters.stepped) * 0.08)
    engine.leave(again)
    until(lambda: engine.status.free == 2)
    assert engine._roster.sessions == [] and not stepper.sampling


def test_its_neighbour_hears_no_gap_and_nobody_gets_between(engine: Engine, stepper: ProbeStepper) -> None:
    stepper.prime_seconds = 0.03
    restless, neighbour = talked(engine, 2), join_talking(engine)

    def say(index: int) -> None:
        nonlocal restless
        neighbour.say(index + 1)
        if index % 5 == 4:
            restless = Talker(engine, engine.start_over(restless.session, ANEW))
            with pytest.raises(NoCapacity):
                engine.join(CHOICES)
        restless.say(0.5)

    pace(25, say, [neighbour])
    until(lambda: len(neighbour.collect()) >= 25)
    assert [value for value in neighbour.values if value] == list(range(1, 26)), "in order, none lost"
    assert neighbour.session.counters.heard_dropped == 0
    assert restless.session.tenancy.generation == 6 and engine.status.free == 0


def test_a_step_under_way_reaches_nobody_and_is_not_waited_for(engine: Engine, stepper: ProbeStepper) -> None:
    old = join_talking(engine)
    with stepper.stopped():
        say_into_a_step(old, stepper)
        began = time.monotonic()
        fresh = Talker(engine, engine.start_over(old.session, ANEW))
        third = Talker(engine, engine.start_over(fresh.session, ANEW))
        assert time.monotonic() - began < AT_ONCE_SECONDS
        assert third.session.state is SessionState.PRIMING and is_over(fresh.session) and engine.status.free == 1
    until(lambda: is_talking(third.session))
    pace(5, lambda index: third.say(0.25), [third])
    assert set(third.values) <= {0.0, 0.25} and 0.25 in third.values
    assert old.session.text_tokens == [] == fresh.session.text_tokens
    assert len(engine._roster.sessions) == 1


def test_a_prompt_that_is_being_read_is_dropped_for_the_new_one() -> None:
    with Engine(EchoStepper(1, prime_seconds=0.5)) as engine:
        first = engine.join(CHOICES)
        time.sleep(0.1)
        second = engine.start_over(first, ANEW)
        until(lambda: is_talking(second), what="the new prompt is read")
        assert is_over(first) and second.text_tokens == []
        talk_on(Talker(engine, second), 3)
        assert second.text_tokens[0] == ANEW.seed


def test_what_cannot_be_used_leaves_the_talk_as_it_was(engine: Engine) -> None:
    talker = talked(engine)
    with pytest.raises(InvalidInput, match="no voices of its own"):
        engine.start_over(talker.session, Choices("", "NATF0", SamplingSettings(), 1))
    assert is_talking(talker.session) and engine.can_resume(talker.session.grant)
    talk_on(talker)
    tokens = talker.session.text_tokens
    assert tokens == list(range(CHOICES.seed, CHOICES.seed + len(tokens)))


def test_a_talk_that_is_over_or_parked_is_not_started_over(engine: Engine) -> None:
    stopped, lost = talked(engine), talked(engine)
    engine.leave(stopped.session)
    engine.leave(lost.session, LOST, park=True)
    for session, because in ((stopped.session, YOU_STOPPED), (lost.session, LOST)):
        with pytest.raises(SessionEnded, match=because):
            engine.start_over(session, ANEW)
    until(lambda: engine.status.free == 2)
    assert engine.can_resume(lost.session.grant), "what was parked can still be resumed"


def test_a_prompt_that_fails_ends_the_new_talk_in_words_and_no_other(engine: Engine, stepper: ProbeStepper) -> None:
    talker, neighbour = talked(engine), join_talking(engine)
    stepper.fails.add("prime")
    fresh = engine.start_over(talker.session, ANEW)
    until(lambda: is_over(fresh))
    assert fresh.ended_because == tick_loop.PRIME_FAILED
    until(lambda: engine.status.free == 1)
    talk_on(neighbour, 3)


def test_an_engine_that_has_stopped_says_so(engine: Engine) -> None:
    talker = talked(engine)
    engine.stop()
    with pytest.raises(ServerFault, match="shutting down"):
        engine.start_over(talker.session, ANEW)
