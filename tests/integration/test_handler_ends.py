"""However a connection or its talk ends, the slot comes free, a sentence is said, and nothing stays behind."""

from __future__ import annotations

import asyncio

import pytest
from support.call import Call, eventually, hush, open_desk, play_out, talking
from support.desk import Door, slot_free
from support.engine import is_over, is_talking

from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.web import handler as handler_module
from personaplex_app.web import look_out
from personaplex_app.web.desk import LOST


@pytest.fixture
def stepper() -> Door:
    return Door()


def test_a_connection_that_closes_frees_the_slot_and_parks_the_talk_however_often_it_is_said(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            for _ in range(3):
                await call.handler.shutdown()
            await slot_free(desk)
            await call.stop()
            assert call.end == ("lost", LOST) and call.session.ended_because == LOST
            assert call.talk is not None and engine.can_resume(call.talk.grant) and engine.parked.count == 1

    play_out(story)


def test_a_stop_ends_the_connection_in_words_and_parks_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_module, "FAREWELL_SECONDS", 0.1)

    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            assert call.talk is not None
            desk.stop(call.talk)
            await slot_free(desk)
            await eventually(lambda: call.goodbyes, 1.0, "goodbye")
            await eventually(lambda: call.peers.closed, 1.0, "a page that does not close is closed")
            await call.stop()
            assert call.goodbyes == [YOU_STOPPED] and call.end == ("stopped", YOU_STOPPED)
            assert engine.parked.count == 0

    play_out(story)


def test_twenty_calls_leave_no_task_and_no_slot_behind(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            await talking(first := Call(desk, "the first"))
            await first.stop()
            await slot_free(desk)
            tasks = len(asyncio.all_tasks())
            for number in range(20):
                call = Call(desk, name=f"visitor {number}")
                await talking(call)
                if number % 2 and call.talk is not None:
                    desk.stop(call.talk)
                await call.stop()
                await slot_free(desk)
            await asyncio.sleep(2 * look_out.LOOK_SECONDS)
            assert len(asyncio.all_tasks()) <= tasks
            assert desk.status.talking == desk.status.waiting == 0

    play_out(story)


def test_a_visitor_who_leaves_while_joining_holds_no_slot(engine: Engine, stepper: Door) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            stepper.door.clear()
            call.start(call.ask(), hush)
            await eventually(lambda: call.talk and call.talk.entering)
            await call.handler.shutdown()
            stepper.door.set()
            await eventually(call.tasks[0].done, what="start_up done")
            await slot_free(desk)
            assert is_over(call.session) and call.end == ("lost", LOST)
            await call.stop()

    play_out(story)


def test_a_ticket_that_comes_after_the_visitor_left_holds_no_slot(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            ticket = call.ask()
            call.start(None, hush)
            await asyncio.sleep(0.05)
            await call.handler.shutdown()
            call.bring(ticket)
            await eventually(call.tasks[0].done, what="start_up done")
            await slot_free(desk)
            await call.stop()

    play_out(story)


def test_a_peer_that_fell_silent_is_told_and_closed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_out, "SILENT_PATH_SECONDS", 0.4)
    monkeypatch.setattr(handler_module, "FAREWELL_SECONDS", 0.1)

    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            await asyncio.sleep(1.0)
            assert is_talking(call.session), "a peer that speaks is left alone"
            call.tasks.pop().cancel()  # the microphone
            await eventually(lambda: call.peers.closed, 3.0, "closed")
            await slot_free(desk)
            assert call.peers.closed == [call.name] and call.goodbyes == [LOST]
            assert call.end == ("lost", LOST)
            await call.stop()

    play_out(story)
