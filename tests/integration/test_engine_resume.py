"""A talk that broke off goes on in another slot, from its own state, for whoever holds the grant, and once."""

from __future__ import annotations

import threading

import pytest
from support.engine import CHOICES, ProbeStepper, Talker, is_talking, join_talking, until
from support.resume import LOST, assert_one_talk, assert_unknown, say_into_a_step, taken_up, talk_on, talked

from personaplex_app.controls import SamplingSettings
from personaplex_app.engine import comeback, tick_loop
from personaplex_app.engine.comeback import TAKEN_OVER
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.engine.session import Session
from personaplex_app.errors import NoCapacity, SessionEnded

FREE_SECONDS = 5.0


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=2)


def test_a_lost_talk_frees_its_slot_and_goes_on(engine: Engine, stepper: ProbeStepper) -> None:
    lost = talked(engine)
    other = join_talking(engine)
    engine.leave(lost.session, LOST, park=True)
    until(lambda: engine.status.free == 1)
    assert engine.can_resume(lost.session.grant) and engine.parked.count == 1 and engine.parked.bytes > 0
    assert stepper.sampling.keys() == {1} and lost.session.ended_because == LOST
    before = lost.session.counters.stepped
    resumed = taken_up(engine, lost.session.grant)
    assert resumed.session.resumed and not lost.session.resumed and engine.parked.count == 0
    talk_on(resumed)
    assert resumed.session.counters.stepped >= before + 5 and is_talking(other.session)
    assert resumed.spoken[0].index == before, "frames are counted on"
    assert_one_talk(resumed.session)


def test_a_new_grant_each_time_and_the_old_one_is_dead(engine: Engine) -> None:
    talker = talked(engine)
    grants = [talker.session.grant]
    for _ in range(3):
        engine.leave(talker.session, LOST, park=True)
        talker = taken_up(engine, grants[-1])
        talk_on(talker, 2)
        assert_unknown(engine, grants[-1])
        grants.append(talker.session.grant)
    assert len(set(grants)) == 4 and all(len(grant) >= 32 for grant in grants)
    assert not any(grant in repr(talker.session) for grant in grants), "a grant is a secret"
    assert_one_talk(talker.session)


def test_what_was_chosen_and_applied_goes_on(engine: Engine, stepper: ProbeStepper) -> None:
    talker = talked(engine)
    first, second = SamplingSettings(audio_temperature=0.1), SamplingSettings(audio_temperature=0.2)
    talker.session.want_sampling(first)
    talk_on(talker, 3)
    with stepper.stopped():
        say_into_a_step(talker, stepper)
        talker.session.want_sampling(second)  # asked for, and lost before the next step
        engine.leave(talker.session, LOST, park=True)
    resumed = engine.resume(talker.session.grant)
    assert resumed.choices == CHOICES and resumed.applied == talker.session.applied
    assert resumed.applied.sampling == first and resumed.counters == talker.session.counters
    talk_on(Talker(engine, resumed), 2)
    assert stepper.sampling[resumed.tenancy.slot] == second == resumed.applied.sampling


def test_a_clean_stop_leaves_no_grant(engine: Engine) -> None:
    talker = talked(engine, 2)
    engine.leave(talker.session)
    assert_unknown(engine, talker.session.grant)
    until(lambda: engine.status.free == 2)
    assert_unknown(engine, talker.session.grant)
    assert engine.parked.count == 0 and talker.session.ended_because == YOU_STOPPED


@pytest.mark.parametrize("wait", [False, True], ids=["before it is parked", "once it is parked"])
def test_a_stop_after_the_break_leaves_no_grant(engine: Engine, wait: bool) -> None:
    talker = talked(engine, 2)
    engine.leave(talker.session, LOST, park=True)
    if wait:
        until(lambda: engine.parked.count == 1)
    engine.leave(talker.session)
    assert_unknown(engine, talker.session.grant)
    until(lambda: engine.status.free == 2)
    assert engine.parked.count == 0


def test_a_vanished_microphone_s_talk_can_be_resumed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tick_loop.VANISHED_SECONDS + 0.5 <= FREE_SECONDS
    monkeypatch.setattr(tick_loop, "VANISHED_SECONDS", 0.4)
    talker = talked(engine, 3)
    until(lambda: engine.status.free == 2)
    assert talker.session.ended_because == tick_loop.VANISHED
    resumed = taken_up(engine, talker.session.grant)
    talk_on(resumed, 3)
    assert_one_talk(resumed.session)


def test_a_live_talk_is_taken_over(engine: Engine) -> None:
    first, other = talked(engine), talked(engine, 1)
    assert engine.can_resume(first.session.grant)
    second = taken_up(engine, first.session.grant)
    assert first.session.ended_because == TAKEN_OVER and is_talking(other.session)
    assert engine.status.free == 0 and engine.status.talking == 2
    talk_on(second, 3)
    assert_one_talk(second.session)
    assert_unknown(engine, first.session.grant)


def test_a_talk_in_a_step_that_will_not_end_is_not_taken_over_yet(
    engine: Engine, stepper: ProbeStepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comeback, "TAKE_OVER_SECONDS", 0.2)
    talker = talked(engine, 2)
    with stepper.stopped():
        say_into_a_step(talker, stepper)
        with pytest.raises(NoCapacity, match="busy with its last step"):
            engine.resume(talker.session.grant)
    resumed = taken_up(engine, talker.session.grant)
    talk_on(resumed, 2)
    assert_one_talk(resumed.session)


def test_where_no_slot_is_free_the_grant_stays(engine: Engine) -> None:
    lost = talked(engine, 3)
    engine.leave(lost.session, LOST, park=True)
    until(lambda: engine.status.free == 2)
    others = [join_talking(engine) for _ in range(2)]
    for _ in range(3):
        with pytest.raises(NoCapacity, match="All 2 lines"):
            engine.resume(lost.session.grant)
        assert engine.can_resume(lost.session.grant)
    engine.leave(others[0].session)
    until(lambda: engine.status.free == 1)
    resumed = taken_up(engine, lost.session.grant)
    talk_on(resumed, 2)
    assert_one_talk(resumed.session)


def test_one_of_many_who_name_the_grant_at_once_gets_the_talk(engine: Engine) -> None:
    lost = talked(engine, 2)
    engine.leave(lost.session, LOST, park=True)
    got: list[Session] = []
    refused: list[Exception] = []
    gate = threading.Barrier(6)

    def ask() -> None:
        gate.wait(5)
        try:
            got.append(engine.resume(lost.session.grant))
        except (SessionEnded, NoCapacity) as error:
            refused.append(error)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(got) == 1 and len(refused) == 5 and engine.status.free == 1


def test_a_talk_that_breaks_off_before_it_goes_on_is_parked_again(
    engine: Engine, stepper: ProbeStepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    talker, restoring, gate = talked(engine, 3), threading.Event(), threading.Event()
    engine.leave(talker.session, LOST, park=True)
    restore = stepper.restore

    def slow_restore(slot: int, saved: object) -> None:
        restoring.set()
        assert gate.wait(20)
        restore(slot, saved)

    monkeypatch.setattr(stepper, "restore", slow_restore)
    again = engine.resume(talker.session.grant)
    assert restoring.wait(5)
    engine.leave(again, LOST, park=True)
    gate.set()
    until(lambda: engine.status.free == 2)
    resumed = taken_up(engine, again.grant)
    talk_on(resumed, 2)
    assert_one_talk(resumed.session)
