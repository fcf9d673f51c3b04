"""However a talk ends or fails to begin, its visitor is told, its slot comes free and the next one talks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np
import pytest
from support.call import eventually, open_desk, play_out
from support.desk import Door, Voice, slot_free, talking_at
from support.engine import CHOICES, ProbeStepper, frame_of, is_over
from support.speech import pause, speak

from personaplex_app.engine import tick_loop
from personaplex_app.engine.admission import Limits, TicketState
from personaplex_app.engine.call_clock import CallLimits
from personaplex_app.engine.facade import Engine
from personaplex_app.errors import NoCapacity, ServerFault, SessionEnded
from personaplex_app.web import look_out
from personaplex_app.web.desk import LOST
from personaplex_app.web.look_out import NO_ANSWER, NOT_CONNECTED
from personaplex_app.web.returns import MOST_RETURNS


@pytest.fixture
def stepper() -> Door:
    return Door()


# However it ends, the slot is free.


@pytest.mark.timed
def test_a_path_that_falls_silent_is_a_lost_talk(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_out, "SILENT_PATH_SECONDS", 0.5)

    async def story() -> None:
        async with open_desk(engine) as desk:
            talk = await talking_at(desk)
            async with Voice(desk, talk):
                await asyncio.sleep(1.2)
                assert talk.ended is None, "while sound comes it goes on"
            assert await eventually(lambda: talk.ended) < 0.5 + 2 * look_out.LOOK_SECONDS
            assert talk.ended == ("lost", LOST) and engine.can_resume(talk.grant)
            assert await slot_free(desk) < 1.0

    play_out(story)


def test_who_never_connects_is_told_and_held_nothing(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine, Limits(connect_seconds=0.3)) as desk:
            talk = desk.ask("anna", "somewhere", CHOICES)
            await eventually(lambda: talk.ended)
            assert talk.ended == ("lost", NOT_CONNECTED) and engine.status.free == 1
            with pytest.raises(NoCapacity, match="not admitted"):
                await desk.enter(talk, "socket")

    play_out(story)


def test_who_comes_back_and_never_connects_has_no_grant_any_more(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine, Limits(connect_seconds=0.3)) as desk:
            talk = await talking_at(desk)
            desk.lose(talk)
            await slot_free(desk)
            back = desk.come_back("anna", talk.grant)
            await eventually(lambda: back.ended)
            assert back.ended == ("lost", NOT_CONNECTED) and not engine.can_resume(talk.grant)

    play_out(story)


def test_a_grant_holds_one_place_and_not_for_ever(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            talk = await talking_at(desk)
            desk.lose(talk)
            await slot_free(desk)
            await talking_at(desk, "bert")
            waiting = desk.ask("carl", "somewhere", CHOICES)
            places = [desk.come_back("anna", talk.grant) for _ in range(MOST_RETURNS)]
            assert [place.ended is None for place in places] == [False] * (MOST_RETURNS - 1) + [True]
            assert (desk.place(places[-1]), desk.place(waiting)) == (1, 2)
            with pytest.raises(SessionEnded) as refused:
                desk.come_back("anna", talk.grant)
            assert refused.value.code == "grant_unknown" and engine.parked.count == 0

    play_out(story)


def test_who_does_not_answer_is_told_and_the_next_one_is_called(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine, Limits(turn_seconds=0.6)) as desk:
            talk = await talking_at(desk)
            absent, present = (desk.ask(name, "somewhere", CHOICES) for name in ("bert", "carl"))
            assert [desk.place(each) for each in (absent, present)] == [1, 2] and desk.status.waiting == 2
            desk.stop(talk)
            await eventually(lambda: absent.ticket.state is TicketState.CALLED)
            await eventually(lambda: absent.ended)
            assert absent.ended == ("no_answer", NO_ANSWER)
            await eventually(lambda: present.ticket.state is TicketState.CALLED)
            desk.answer(present)
            await desk.enter(present, "socket")

    play_out(story)


@pytest.mark.parametrize("leaves", ["stop", "lose"])
def test_who_leaves_while_joining_holds_no_slot(engine: Engine, stepper: Door, leaves: str) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            stepper.door.clear()
            talk = desk.ask("anna", "somewhere", CHOICES)
            entering = asyncio.create_task(desk.enter(talk, "socket"))
            await asyncio.sleep(0.1)
            getattr(desk, leaves)(talk)
            stepper.door.set()
            await entering
            await slot_free(desk)
            assert talk.ended is not None and talk.session is not None and is_over(talk.session)
            assert leaves == "lose" or engine.parked.count == 0

    play_out(story)


def test_a_voice_that_takes_long_to_read_is_no_lost_connection(
    engine: Engine, stepper: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_out, "SILENT_PATH_SECONDS", 0.5)

    async def story() -> None:
        async with open_desk(engine) as desk:
            stepper.door.clear()
            talk = desk.ask("anna", "somewhere", CHOICES)
            entering = asyncio.create_task(desk.enter(talk, "socket"))
            await asyncio.sleep(1.2)
            assert talk.ended is None
            stepper.door.set()
            await entering
            async with Voice(desk, talk):
                await eventually(lambda: talk.talking)
                await asyncio.sleep(0.5)
            assert talk.ended is None

    play_out(story)


def test_two_who_connect_at_once_are_one_talk_and_one_first_in_the_line(engine: Engine, stepper: Door) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            quick, slow = (desk.ask(name, "somewhere", CHOICES) for name in ("anna", "bert"))
            stepper.door.clear()
            entering = asyncio.create_task(desk.enter(quick, "socket"))
            await asyncio.sleep(0.1)
            assert engine.status.free == 1, "the voice is still being read, no slot is taken"
            with pytest.raises(NoCapacity, match="Somebody was quicker"):
                await desk.enter(slow, "socket")
            late = desk.ask("carl", "somewhere", CHOICES)
            assert [desk.place(talk) for talk in (slow, late)] == [1, 2]
            stepper.door.set()
            await entering
            await eventually(lambda: quick.talking)
            assert slow.ended is None

    play_out(story)


FAULTS: dict[str, tuple[Callable[[ProbeStepper], object], str]] = {
    "exception": (lambda stepper: stepper.fails.add("step"), tick_loop.STEP_FAILED),
    "not finite": (lambda stepper: stepper.unhealthy.add(0), tick_loop.NOT_FINITE),
}


@pytest.mark.timed
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_engine_is_told_and_the_next_visitor_talks(engine: Engine, stepper: Door, fault: str) -> None:
    happen, sentence = FAULTS[fault]

    async def story() -> None:
        async with open_desk(engine) as desk:
            talk = await talking_at(desk)
            happen(stepper)
            talk.hear(engine, frame_of(0.5))
            assert await eventually(lambda: talk.ended) < 1.0
            assert talk.ended == ("fault", sentence) and not engine.can_resume(talk.grant)
            stepper.fails.clear()
            stepper.unhealthy.clear()
            assert await slot_free(desk) < 1.0
            await talking_at(desk, "bert")

    play_out(story)


def test_a_dead_engine_lets_nobody_in(engine: Engine, stepper: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_loop, "HUNG_SECONDS", 0.3)

    async def story() -> None:
        async with open_desk(engine) as desk:
            talk = await talking_at(desk)
            stepper.gate.clear()
            talk.hear(engine, frame_of(0.5))
            await eventually(lambda: talk.ended)
            assert talk.ended == ("fault", tick_loop.ENGINE_DEAD)
            with pytest.raises(ServerFault, match=tick_loop.ENGINE_DEAD[:20]):
                desk.ask("bert", "somewhere", CHOICES)
            stepper.gate.set()

    play_out(story)


# Time.


@pytest.mark.timed
def test_silence_is_warned_of_and_ends(engine: Engine) -> None:
    async def story() -> None:
        limits = CallLimits(idle_warning_seconds=0.5, idle_end_seconds=1.2)
        async with open_desk(engine, None, limits) as desk:
            talk = await talking_at(desk)
            async with Voice(desk, talk):
                await eventually(lambda: talk.warnings)
                assert [notice.code for notice in talk.warnings] == ["idle"] and talk.ended is None
                await eventually(lambda: talk.ended)
            assert talk.ended is not None and talk.ended[0] == "idle" and "Nothing was said" in talk.ended[1]
            await slot_free(desk)
            assert not engine.can_resume(talk.grant)

    play_out(story)


@pytest.mark.timed
def test_a_hum_is_no_presence_and_speech_is(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex_app.web.talk.LISTEN_AFTER_SECONDS", 0.0)
    at = np.arange(48_000) / 24_000
    hum = (0.1 * np.sin(2 * np.pi * 50 * at)).astype(np.float32)
    words = np.concatenate([speak("Good morning, is anybody there?"), pause(0.1)])

    async def story() -> None:
        limits = CallLimits(idle_warning_seconds=1.0, idle_end_seconds=2.0)
        async with open_desk(engine, None, limits) as desk:
            present = await talking_at(desk)
            async with Voice(desk, present, words):
                await asyncio.sleep(3.0)
                assert present.ended is None
            desk.stop(present)
            await slot_free(desk)
            absent = await talking_at(desk)
            async with Voice(desk, absent, hum):
                await eventually(lambda: absent.ended)
            assert absent.ended is not None and absent.ended[0] == "idle"

    play_out(story)


@pytest.mark.timed
def test_the_limit_is_warned_of_and_ends(engine: Engine) -> None:
    async def story() -> None:
        limits = CallLimits(call_seconds=1.5, call_warning_seconds=1.0)
        async with open_desk(engine, None, limits) as desk:
            talk = await talking_at(desk)
            async with Voice(desk, talk):
                await eventually(lambda: talk.ended)
            assert [(notice.code, notice.over) for notice in talk.warnings] == [("limit", False)]
            assert talk.ended == ("limit", "The talk has reached its 2 seconds.")
            await slot_free(desk)
            assert not engine.can_resume(talk.grant)

    play_out(story)
