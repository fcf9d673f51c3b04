"""What fails while a talk is parked or taken up again ends that talk at most, in words, and leaves no grant behind."""

from __future__ import annotations

import threading

import pytest
from support.engine import CHOICES, ProbeStepper, is_over, until
from support.resume import LOST, assert_unknown, say_into_a_step, talk_on, talked

from personaplex_app.engine import tick_loop
from personaplex_app.engine.facade import Engine
from personaplex_app.errors import ServerFault


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=2)


def test_a_newcomer_who_leaves_while_the_prompt_is_read_has_nothing_to_resume() -> None:
    with Engine(ProbeStepper(slots=1, prime_seconds=0.5)) as engine:
        session = engine.join(CHOICES)
        assert not engine.can_resume(session.grant)
        engine.leave(session, LOST, park=True)
        assert_unknown(engine, session.grant)
        until(lambda: engine.status.free == 1)
        assert engine.parked.count == 0


def test_a_stop_while_it_is_being_saved_leaves_no_grant(
    engine: Engine, stepper: ProbeStepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    talker, saving, gate = talked(engine, 2), threading.Event(), threading.Event()
    save = stepper.save

    def slow_save(slot: int):
        saving.set()
        assert gate.wait(20)
        return save(slot)

    monkeypatch.setattr(stepper, "save", slow_save)
    engine.leave(talker.session, LOST, park=True)
    assert saving.wait(5) and engine.can_resume(talker.session.grant)
    engine.forget(talker.session.grant)
    assert not engine.can_resume(talker.session.grant)
    gate.set()
    until(lambda: engine.status.free == 2)
    assert_unknown(engine, talker.session.grant)
    assert engine.parked.count == 0


def test_a_dead_engine_resumes_nobody(engine: Engine, stepper: ProbeStepper) -> None:
    lost, other = talked(engine, 2), talked(engine, 1)
    engine.leave(lost.session, LOST, park=True)
    until(lambda: engine.parked.count == 1)
    stepper.fails.add("release")
    engine.leave(other.session)
    until(lambda: engine.status.failed)
    with pytest.raises(ServerFault, match="has stopped working"):
        engine.resume(lost.session.grant)


def test_a_talk_that_cannot_be_saved_is_over_and_the_engine_goes_on(engine: Engine, stepper: ProbeStepper) -> None:
    stays = talked(engine, 1)
    lost = talked(engine, 2)
    stepper.fails.add("save")
    engine.leave(lost.session, LOST, park=True)
    until(lambda: engine.status.free == 1)
    assert_unknown(engine, lost.session.grant)
    assert lost.session.ended_because == LOST and not engine.status.failed
    talk_on(stays, 2)


def test_a_talk_that_cannot_be_restored_is_told_and_the_engine_goes_on(engine: Engine, stepper: ProbeStepper) -> None:
    stays, lost = talked(engine, 1), talked(engine, 2)
    engine.leave(lost.session, LOST, park=True)
    stepper.fails.add("restore")
    session = engine.resume(lost.session.grant)
    until(lambda: is_over(session))
    assert session.ended_because == tick_loop.RESTORE_FAILED
    until(lambda: engine.status.free == 1)
    assert_unknown(engine, session.grant)
    talk_on(stays, 2)


@pytest.mark.parametrize("fault", ["numbers", "step"])
def test_a_state_gone_bad_in_its_last_step_is_not_kept(engine: Engine, stepper: ProbeStepper, fault: str) -> None:
    talker = talked(engine, 2)
    with stepper.stopped():
        say_into_a_step(talker, stepper)
        if fault == "numbers":
            stepper.unhealthy.add(talker.session.tenancy.slot)
        engine.leave(talker.session, LOST, park=True)
        assert engine.can_resume(talker.session.grant)
        if fault == "step":
            stepper.fails.add("text")
    until(lambda: engine.status.free == 2)
    assert_unknown(engine, talker.session.grant)
