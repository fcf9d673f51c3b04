"""A talk that broke off goes on in another slot, from its own state, for whoever holds the grant, and once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from support.engine import CHOICES, ProbeStepper, Talker, is_over, is_talking, join_talking, pace, until

from personaplex_app.controls import SamplingSettings
from personaplex_app.engine import facade, tick_loop
from personaplex_app.engine.facade import TAKEN_OVER, YOU_STOPPED, Engine
from personaplex_app.engine.session import Session
from personaplex_app.errors import NoCapacity, ServerFault, SessionEnded

FREE_SECONDS = 5.0
LOST = "The connection was lost."


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=2)


def _said(engine: Engine, frames: int = 5) -> Talker:
    """A talk of some frames."""
    talker = join_talking(engine)
    _go_on(talker, frames)
    return talker


def _go_on(talker: Talker, frames: int = 5) -> None:
    before = talker.session.counters.stepped
    until(lambda: is_talking(talker.session))
    pace(frames, lambda index: talker.say(1), [talker])
    until(lambda: talker.session.counters.stepped >= before + frames)


def _resumed(engine: Engine, grant: str) -> Talker:
    talker = Talker(engine, engine.resume(grant))
    until(lambda: is_talking(talker.session))
    return talker


def _assert_unknown(engine: Engine, grant: str) -> None:
    assert not engine.can_resume(grant)
    with pytest.raises(SessionEnded, match="cannot be taken up again") as refused:
        engine.resume(grant)
    assert refused.value.code == "grant_unknown"


def _assert_one_talk(session: Session) -> None:
    """The echo's count runs on through every break: the state was the talk's own."""
    tokens = session.text_tokens
    assert tokens == list(range(CHOICES.seed, CHOICES.seed + len(tokens)))
    assert session.counters.stepped == len(tokens)


def test_a_lost_talk_frees_its_slot_and_goes_on(engine: Engine, stepper: ProbeStepper) -> None:
    lost = _said(engine)
    other = join_talking(engine)
    engine.leave(lost.session, LOST, park=True)
    until(lambda: engine.status.free == 1, 1.0)
    assert engine.can_resume(lost.session.grant) and engine.parked.count == 1 and engine.parked.bytes > 0
    assert stepper.sampling.keys() == {1} and lost.session.ended_because == LOST
    before = lost.session.counters.stepped
    resumed = _resumed(engine, lost.session.grant)
    assert resumed.session.resumed and not lost.session.resumed and engine.parked.count == 0
    _go_on(resumed)
    assert resumed.session.counters.stepped >= before + 5 and is_talking(other.session)
    assert resumed.spoken[0].index == before, "frames are counted on"
    _assert_one_talk(resumed.session)


def test_a_new_grant_each_time_and_the_old_one_is_dead(engine: Engine) -> None:
    talker = _said(engine)
    grants = [talker.session.grant]
    for _ in range(3):
        engine.leave(talker.session, LOST, park=True)
        talker = _resumed(engine, grants[-1])
        _go_on(talker, 2)
        _assert_unknown(engine, grants[-1])
        grants.append(talker.session.grant)
    assert len(set(grants)) == 4 and all(len(grant) >= 32 for grant in grants)
    assert not any(grant in repr(talker.session) for grant in grants), "a grant is a secret"
    _assert_one_talk(talker.session)


def test_what_was_chosen_and_applied_goes_on(engine: Engine, stepper: ProbeStepper) -> None:
    talker = _said(engine)
    first, second = SamplingSettings(audio_temperature=0.1), SamplingSettings(audio_temperature=0.2)
    talker.session.want_sampling(first)
    _go_on(talker, 3)
    with stepper.stopped():
        talker.say(1)
        time.sleep(0.1)
        talker.session.want_sampling(second)  # asked for, and lost before the next step
        engine.leave(talker.session, LOST, park=True)
    resumed = engine.resume(talker.session.grant)
    assert resumed.choices == CHOICES and resumed.applied == talker.session.applied
    assert resumed.applied.sampling == first and resumed.counters == talker.session.counters
    _go_on(Talker(engine, resumed), 2)
    assert stepper.sampling[resumed.tenancy.slot] == second == resumed.applied.sampling


def test_a_clean_stop_leaves_no_grant(engine: Engine) -> None:
    talker = _said(engine, 2)
    engine.leave(talker.session)
    _assert_unknown(engine, talker.session.grant)
    until(lambda: engine.status.free == 2)
    _assert_unknown(engine, talker.session.grant)
    assert engine.parked.count == 0 and talker.session.ended_because == YOU_STOPPED


@pytest.mark.parametrize("wait", [False, True], ids=["before it is parked", "once it is parked"])
def test_a_stop_after_the_break_leaves_no_grant(engine: Engine, wait: bool) -> None:
    talker = _said(engine, 2)
    engine.leave(talker.session, LOST, park=True)
    if wait:
        until(lambda: engine.parked.count == 1)
    engine.leave(talker.session)
    _assert_unknown(engine, talker.session.grant)
    until(lambda: engine.status.free == 2)
    assert engine.parked.count == 0


def test_a_stop_while_it_is_being_saved_leaves_no_grant(
    engine: Engine, stepper: ProbeStepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    talker, saving, go_on = _said(engine, 2), threading.Event(), threading.Event()
    save = stepper.save

    def slow_save(slot: int):
        saving.set()
        assert go_on.wait(20)
        return save(slot)

    monkeypatch.setattr(stepper, "save", slow_save)
    engine.leave(talker.session, LOST, park=True)
    assert saving.wait(5) and engine.can_resume(talker.session.grant)
    engine.forget(talker.session.grant)
    assert not engine.can_resume(talker.session.grant)
    go_on.set()
    until(lambda: engine.status.free == 2)
    _assert_unknown(engine, talker.session.grant)
    assert engine.parked.count == 0


def test_a_vanished_microphone_s_talk_can_be_resumed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tick_loop.VANISHED_SECONDS + 0.5 <= FREE_SECONDS
    monkeypatch.setattr(tick_loop, "VANISHED_SECONDS", 0.4)
    talker = _said(engine, 3)
    until(lambda: engine.status.free == 2, 2.0)
    assert talker.session.ended_because == tick_loop.VANISHED
    resumed = _resumed(engine, talker.session.grant)
    _go_on(resumed, 3)
    _assert_one_talk(resumed.session)


def test_a_live_talk_is_taken_over(engine: Engine) -> None:
    first, other = _said(engine), _said(engine, 1)
    assert engine.can_resume(first.session.grant)
    second = _resumed(engine, first.session.grant)
    assert first.session.ended_because == TAKEN_OVER and is_talking(other.session)
    assert engine.status.free == 0 and engine.status.talking == 2
    _go_on(second, 3)
    _assert_one_talk(second.session)
    _assert_unknown(engine, first.session.grant)


def test_a_talk_in_a_step_that_will_not_end_is_not_taken_over_yet(
    engine: Engine, stepper: ProbeStepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facade, "TAKE_OVER_SECONDS", 0.2)
    talker = _said(engine, 2)
    with stepper.stopped():
        talker.say(1)
        time.sleep(0.05)
        with pytest.raises(NoCapacity, match="busy with its last step"):
            engine.resume(talker.session.grant)
    resumed = _resumed(engine, talker.session.grant)
    _go_on(resumed, 2)
    _assert_one_talk(resumed.session)


def test_where_no_slot_is_free_the_grant_stays(engine: Engine) -> None:
    lost = _said(engine, 3)
    engine.leave(lost.session, LOST, park=True)
    until(lambda: engine.status.free == 2)
    others = [join_talking(engine) for _ in range(2)]
    for _ in range(3):
        with pytest.raises(NoCapacity, match="All 2 lines"):
            engine.resume(lost.session.grant)
        assert engine.can_resume(lost.session.grant)
    engine.leave(others[0].session)
    until(lambda: engine.status.free == 1)
    resumed = _resumed(engine, lost.session.grant)
    _go_on(resumed, 2)
    _assert_one_talk(resumed.session)


def test_one_of_many_who_name_the_grant_at_once_gets_the_talk(engine: Engine) -> None:
    lost = _said(engine, 2)
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
    talker, restoring, go_on = _said(engine, 3), threading.Event(), threading.Event()
    engine.leave(talker.session, LOST, park=True)
    restore = stepper.restore

    def slow_restore(slot: int, saved: object) -> None:
        restoring.set()
        assert go_on.wait(20)
        restore(slot, saved)

    monkeypatch.setattr(stepper, "restore", slow_restore)
    again = engine.resume(talker.session.grant)
    assert restoring.wait(5)
    engine.leave(again, LOST, park=True)
    go_on.set()
    until(lambda: engine.status.free == 2)
    resumed = _resumed(engine, again.grant)
    _go_on(resumed, 2)
    _assert_one_talk(resumed.session)


def test_a_newcomer_who_leaves_while_the_prompt_is_read_has_nothing_to_resume() -> None:
    with Engine(ProbeStepper(slots=1, prime_seconds=0.5)) as engine:
        session = engine.join(CHOICES)
        assert not engine.can_resume(session.grant)
        engine.leave(session, LOST, park=True)
        _assert_unknown(engine, session.grant)
        until(lambda: engine.status.free == 1)
        assert engine.parked.count == 0


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
    talker = _said(timed, 2)
    timed.leave(talker.session, LOST, park=True)
    until(lambda: timed.parked.count == 1)
    clock.ahead += 24
    assert timed.can_resume(talker.session.grant)
    clock.ahead += 2
    until(lambda: not timed._lot._spaces, 2.0, "let go though nobody asks")
    _assert_unknown(timed, talker.session.grant)
    assert timed.parked.expired == 1


def test_an_owner_in_line_keeps_the_grant(timed: Engine, clock: Clock) -> None:
    talker = _said(timed, 2)
    timed.leave(talker.session, LOST, park=True)
    until(lambda: timed.parked.count == 1)
    for _ in range(5):
        clock.ahead += 20
        assert timed.keep(talker.session.grant)
    _go_on(_resumed(timed, talker.session.grant), 1)
    assert not timed.keep(talker.session.grant) and not timed.keep("no such grant")


def test_a_dead_engine_resumes_nobody(engine: Engine, stepper: ProbeStepper) -> None:
    lost, other = _said(engine, 2), _said(engine, 1)
    engine.leave(lost.session, LOST, park=True)
    until(lambda: engine.parked.count == 1)
    stepper.fails.add("release")
    engine.leave(other.session)
    until(lambda: engine.status.failed)
    with pytest.raises(ServerFault, match="has stopped working"):
        engine.resume(lost.session.grant)


def test_a_talk_that_cannot_be_saved_is_over_and_the_engine_goes_on(engine: Engine, stepper: ProbeStepper) -> None:
    stays = _said(engine, 1)
    lost = _said(engine, 2)
    stepper.fails.add("save")
    engine.leave(lost.session, LOST, park=True)
    until(lambda: engine.status.free == 1, 1.0)
    _assert_unknown(engine, lost.session.grant)
    assert lost.session.ended_because == LOST and not engine.status.failed
    _go_on(stays, 2)


def test_a_talk_that_cannot_be_restored_is_told_and_the_engine_goes_on(engine: Engine, stepper: ProbeStepper) -> None:
    stays, lost = _said(engine, 1), _said(engine, 2)
    engine.leave(lost.session, LOST, park=True)
    stepper.fails.add("restore")
    session = engine.resume(lost.session.grant)
    until(lambda: is_over(session), 1.0)
    assert session.ended_because == tick_loop.RESTORE_FAILED
    until(lambda: engine.status.free == 1)
    _assert_unknown(engine, session.grant)
    _go_on(stays, 2)


@pytest.mark.parametrize("fault", ["numbers", "step"])
def test_a_state_gone_bad_in_its_last_step_is_not_kept(engine: Engine, stepper: ProbeStepper, fault: str) -> None:
    talker = _said(engine, 2)
    with stepper.stopped():
        talker.say(1)
        time.sleep(0.05)
        if fault == "numbers":
            stepper.unhealthy.add(talker.session.tenancy.slot)
        engine.leave(talker.session, LOST, park=True)
        assert engine.can_resume(talker.session.grant)
        if fault == "step":
            stepper.fails.add("text")
    until(lambda: engine.status.free == 2)
    _assert_unknown(engine, talker.session.grant)


def test_nothing_is_parked_beyond_the_bound_and_the_oldest_goes_first(stepper: ProbeStepper) -> None:
    size = 64
    with Engine(stepper, parking_bytes=2 * size) as engine:
        grants = []
        for _ in range(4):
            talker = _said(engine, 1)
            engine.leave(talker.session, LOST, park=True)
            grants.append(talker.session.grant)
            until(lambda: engine.status.free == 2)
            assert engine.parked.bytes <= 2 * size
        assert [engine.can_resume(grant) for grant in grants] == [False, False, True, True]
        assert engine.parked.dropped == 2


def test_a_talk_larger_than_the_bound_is_not_kept(stepper: ProbeStepper) -> None:
    with Engine(stepper, parking_bytes=63) as engine:
        talker = _said(engine, 1)
        engine.leave(talker.session, LOST, park=True)
        until(lambda: engine.status.free == 2)
        _assert_unknown(engine, talker.session.grant)


def test_stop_lets_go_of_what_is_parked(stepper: ProbeStepper) -> None:
    engine = Engine(stepper)
    engine.start()
    talker = _said(engine, 1)
    engine.leave(talker.session, LOST, park=True)
    until(lambda: engine.parked.count == 1)
    engine.stop()
    assert engine.parked.count == 0
    with pytest.raises(ServerFault, match="shutting down"):
        engine.join(CHOICES)
