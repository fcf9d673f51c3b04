"""However a call ends, its slot comes free, its page gets a sentence, and no exception gets out of the handler."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.call import Call, args, eventually, hush, play_out, talking
from support.engine import ProbeStepper, is_talking

from personaplex_app.controls import Choices
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.engine.slots import full_sentence
from personaplex_app.web import handler as handler_module
from personaplex_app.web.calls import Calls
from personaplex_app.web.handler import NO_ARGS, PEER_LOST, CallHandler, make_call_component

FREE_SECONDS = 1.0


class Door(ProbeStepper):
    """An echo whose `open` waits at a door, as reading a big voice would."""

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.door = threading.Event()
        self.door.set()
        self.waiting = threading.Event()

    def open(self, choices: Choices) -> Choices:
        self.waiting.set()
        assert self.door.wait(20)
        return super().open(choices)


@pytest.fixture
def stepper() -> Door:
    return Door()


async def _free(engine: Engine) -> None:
    await eventually(lambda: engine.status.free == engine.status.slots, FREE_SECONDS, "slot free")


def test_hanging_up_frees_the_slot_however_often_it_is_said(engine: Engine) -> None:
    async def story() -> None:
        call = Call(engine)
        await talking(call)
        session = call.session
        for _ in range(3):
            await call.handler.shutdown()
        await _free(engine)
        await call.stop()
        assert session.ended_because == YOU_STOPPED and call.view.status == f"Ended: {YOU_STOPPED}"

    play_out(story)


def test_twenty_calls_leave_no_task_and_no_slot_behind(engine: Engine) -> None:
    async def story() -> None:
        tasks = len(asyncio.all_tasks())
        for number in range(20):
            call = Call(engine, name=f"call {number}")
            await talking(call)
            await call.stop()
            await _free(engine)
        await asyncio.sleep(0.05)
        assert len(asyncio.all_tasks()) == tasks

    play_out(story)


def test_a_visitor_who_leaves_while_joining_holds_no_slot(engine: Engine, stepper: Door) -> None:
    async def story() -> None:
        call = Call(engine)
        stepper.door.clear()
        call.start(args(), hush)
        await eventually(stepper.waiting.is_set)
        await call.handler.shutdown()
        stepper.door.set()
        await eventually(call.tasks[0].done, what="start_up done")
        await _free(engine)
        assert call.handler._session is None
        await call.stop()

    play_out(story)


def test_settings_that_come_after_the_visitor_left_hold_no_slot(engine: Engine) -> None:
    async def story() -> None:
        call = Call(engine)
        call.start(None, hush)
        await asyncio.sleep(0.05)
        await call.handler.shutdown()
        call.move()
        await eventually(call.tasks[0].done, what="start_up done")
        await _free(engine)
        await call.stop()

    play_out(story)


def test_settings_that_never_come_end_in_a_sentence(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_module, "ARGS_SECONDS", 0.2)

    async def story() -> None:
        call = Call(engine)
        call.start(None, hush)
        await eventually(lambda: call.goodbyes, what="goodbye")
        assert call.goodbyes == [NO_ARGS] and engine.status.free == 1
        await call.stop()

    play_out(story)


def test_a_peer_that_fell_silent_is_closed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_module, "SILENT_PEER_SECONDS", 0.4)

    async def story() -> None:
        call = Call(engine)
        await talking(call)
        call.tasks.pop().cancel()  # the microphone
        await eventually(lambda: call.closed_peers, 3.0, "closed")
        await _free(engine)
        assert call.closed_peers == [call.name] and call.session.ended_because == PEER_LOST
        assert call.view.over and PEER_LOST in call.view.status
        await call.stop()

    play_out(story)


def test_a_peer_that_speaks_is_not_closed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_module, "SILENT_PEER_SECONDS", 0.6)

    async def story() -> None:
        call = Call(engine)
        await talking(call)
        await asyncio.sleep(1.2)
        assert is_talking(call.session) and call.closed_peers == []
        await call.stop()

    play_out(story)


def test_an_offer_to_a_full_house_is_refused_before_a_connection_is_made(engine: Engine) -> None:
    async def story() -> None:
        calls = Calls()
        component = make_call_component(engine, calls, mode="send-receive", modality="audio")
        call = Call(engine)
        await talking(call)
        offer = {"type": "offer", "webrtc_id": "late", "sdp": "v=0"}
        answer = await component.offer(offer)
        assert answer["status"] == "failed" and not component.pcs
        view = calls.view("late")
        assert view is not None and view.over and view.status == full_sentence(1)
        await call.stop()

    play_out(story)


def test_a_copy_is_a_fresh_call(engine: Engine) -> None:
    async def story() -> None:
        call = Call(engine)
        await talking(call)
        other = call.handler.copy()
        assert isinstance(other, CallHandler) and other._session is None and other.pacer is not call.handler.pacer
        await call.stop()

    play_out(story)
