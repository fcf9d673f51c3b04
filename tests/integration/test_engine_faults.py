"""When something fails, whoever is concerned is told within a second, others go on, or the engine says it is dead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from support.engine import CHOICES, ProbeStepper, Talker, frame_of, is_over, is_talking, join_talking, pace, until

from personaplex_app.controls import SamplingSettings
from personaplex_app.engine import tick_loop
from personaplex_app.engine.facade import Engine
from personaplex_app.errors import ServerFault
from personaplex_app.web.call_view import status_words

TOLD_SECONDS = 1.0


@dataclass
class House:
    """An engine over a stepper that fails on demand, and what it said when it died."""

    stepper: ProbeStepper = field(default_factory=lambda: ProbeStepper(slots=2))
    fatal: list[str] = field(default_factory=list)
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = Engine(self.stepper, on_fatal=self.fatal.append)

    def alive(self) -> bool:
        """Whether a newcomer is let in, heard and answered."""
        talker = join_talking(self.engine)
        talker.say(0.5)
        until(lambda: 0.5 in talker.values)
        return not self.engine.status.failed and not self.fatal


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    with house.engine:
        yield house


def _assert_dead(house: House) -> None:
    """The engine says so to the page, to its process and to whoever comes."""
    until(lambda: house.fatal)
    assert house.fatal == [tick_loop.ENGINE_DEAD] == [house.engine.status.failed]
    for ask in (lambda: house.engine.join(CHOICES), house.engine.check_capacity):
        with pytest.raises(ServerFault, match="has stopped working"):
            ask()


@pytest.mark.parametrize("method", ["step", "set_sampling", "text"])
def test_a_failure_in_a_step_ends_the_talk_in_words_and_the_engine_goes_on(house: House, method: str) -> None:
    talker = join_talking(house.engine)
    house.stepper.fails.add(method)
    talker.session.want_sampling(SamplingSettings(audio_temperature=0.1))
    talker.say(1)
    assert until(lambda: is_over(talker.session), TOLD_SECONDS) < TOLD_SECONDS
    assert talker.session.ended_because == tick_loop.STEP_FAILED
    house.stepper.fails.clear()
    until(lambda: house.engine.status.free == 2, TOLD_SECONDS)
    assert house.alive()


def test_a_failure_while_priming_ends_that_talk_only(house: House) -> None:
    before = join_talking(house.engine)
    house.stepper.fails.add("prime")
    unlucky = house.engine.join(CHOICES)
    assert until(lambda: is_over(unlucky), TOLD_SECONDS) < TOLD_SECONDS
    assert unlucky.ended_because == tick_loop.PRIME_FAILED and is_talking(before.session)
    house.stepper.fails.clear()
    until(lambda: house.engine.status.free == 1, TOLD_SECONDS)
    assert house.alive()


def test_a_slot_that_cannot_be_wiped_is_the_engine_s_end(house: House) -> None:
    stays, goes = (join_talking(house.engine).session for _ in range(2))
    house.stepper.fails.add("release")
    house.engine.leave(goes)
    assert until(lambda: is_over(stays), TOLD_SECONDS) < TOLD_SECONDS
    assert stays.ended_because == tick_loop.ENGINE_DEAD
    _assert_dead(house)


def test_numbers_that_are_none_end_that_talk_only(house: House) -> None:
    sick, well = (join_talking(house.engine) for _ in range(2))
    house.stepper.unhealthy.add(sick.session.tenancy.slot)
    for talker in (sick, well):
        talker.say(0.5)
    assert until(lambda: is_over(sick.session), TOLD_SECONDS) < TOLD_SECONDS
    assert sick.session.ended_because == tick_loop.NOT_FINITE
    assert 0.5 not in sick.values, "and nothing of it is spoken"
    pace(5, lambda index: well.say(index + 1), [well])
    assert {1, 2, 3}.issubset(well.values) and is_talking(well.session)


@pytest.mark.timed
def test_a_stall_is_told_while_it_lasts_and_forgotten_after(house: House) -> None:
    talker = join_talking(house.engine)
    with house.stepper.stopped():
        talker.say(1)
        told = until(lambda: talker.session.stalled)
        assert "has not answered" in status_words(talker.session)
        time.sleep(max(0.0, 2.0 - told))
    assert told <= 1.0 + 0.2, "told within a second, on a busy machine"
    until(lambda: not talker.session.stalled)
    assert is_talking(talker.session) and status_words(talker.session).startswith("Talking. ")
    talker.say(2)
    until(lambda: 2.0 in talker.values)


@pytest.mark.timed
def test_after_a_stall_only_the_newest_three_frames_are_heard(house: House) -> None:
    talker = join_talking(house.engine)
    with house.stepper.stopped():
        pace(25, lambda index: talker.say(index + 1), [talker])
    talker.say(26)
    until(lambda: 26.0 in talker.values)
    assert talker.values[0] == 1 and set(talker.values[1:]) <= {0.0, 23, 24, 25, 26}
    assert talker.session.counters.heard_dropped >= 20 and talker.session.queues.slow


@pytest.mark.timed
def test_a_step_that_hangs_is_the_engine_s_end(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_loop, "HUNG_SECONDS", 0.4)
    waiting, other = (join_talking(house.engine) for _ in range(2))
    with house.stepper.stopped():
        for talker in (waiting, other):
            talker.say(1)
        until(lambda: is_over(waiting.session), TOLD_SECONDS)
        assert [talker.session.ended_because for talker in (waiting, other)] == [tick_loop.ENGINE_DEAD] * 2
        _assert_dead(house)
    assert house.fatal == [tick_loop.ENGINE_DEAD], "told once"


@pytest.mark.timed
def test_a_microphone_that_vanished_ends_the_talk(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_loop, "VANISHED_SECONDS", 0.6)
    gone, stays = (join_talking(house.engine) for _ in range(2))
    pace(20, lambda index: stays.say(1), [stays, gone])
    assert is_over(gone.session) and gone.session.ended_because == tick_loop.VANISHED
    assert is_talking(stays.session) and house.engine.status.free == 1


@pytest.mark.timed
def test_sound_too_short_for_a_frame_still_shows_that_somebody_is_there(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tick_loop, "VANISHED_SECONDS", 0.6)
    talker = join_talking(house.engine)
    pace(15, lambda index: house.engine.hear(talker.session, frame_of(0)[:16]), [talker])
    assert is_talking(talker.session)


def test_a_failure_nobody_talks_to_is_told_at_the_door(house: House) -> None:
    house.stepper.fails |= {"prime", "release"}
    talker = Talker(house.engine, house.engine.join(CHOICES))
    until(lambda: house.engine.status.failed)
    assert is_over(talker.session)
    _assert_dead(house)


@pytest.mark.timed
def test_a_prompt_that_hangs_is_the_engine_s_end(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_loop, "HUNG_PROMPT_SECONDS", 0.4)
    talking = join_talking(house.engine)
    house.stepper.prime_seconds = 1.5
    house.engine.join(CHOICES)
    until(lambda: is_over(talking.session), 2 * TOLD_SECONDS)
    _assert_dead(house)


@pytest.mark.timed
def test_time_lost_to_a_stall_is_not_made_up_for_with_silence(house: House) -> None:
    quiet = join_talking(house.engine)
    pace(6, lambda index: None, [quiet])
    with house.stepper.stopped():
        pace(20, lambda index: None, [quiet])
    before = quiet.session.counters.stepped
    pace(6, lambda index: None, [quiet])
    assert quiet.session.counters.stepped - before <= 9
