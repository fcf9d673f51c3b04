"""An error anywhere in a call's way ends it with a sentence; no exception gets out, no sound stops untold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.call import Call, eventually, hush, open_desk, play_out, talking
from support.desk import slot_free
from support.engine import CHOICES, ProbeStepper, is_over

from personaplex_app.engine import tick_loop
from personaplex_app.engine.facade import Engine
from personaplex_app.web import desk as desk_module
from personaplex_app.web.handler import UNEXPECTED


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=1)


@pytest.mark.parametrize("part", ["_wait_for_change", "_gap_is_due", "_packet"])
def test_an_error_in_the_output_ends_the_call_in_words(
    engine: Engine, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("told to fail")

    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            monkeypatch.setattr(call.handler, part, fail)
            await eventually(lambda: UNEXPECTED in call.goodbyes, what="goodbye")
            await slot_free(desk)
            assert is_over(call.session) and call.end == ("fault", UNEXPECTED)
            monkeypatch.undo()
            await call.stop()

    play_out(story)


def test_an_error_while_starting_ends_in_words(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            monkeypatch.setattr(engine.stepper, "open", None)
            call.start(call.ask(), hush)
            await eventually(lambda: call.goodbyes, what="goodbye")
            assert call.goodbyes == [UNEXPECTED] and engine.status.free == 1
            assert call.end == ("fault", desk_module.UNEXPECTED), "and the page is told"
            await call.stop()

    play_out(story)


def test_choices_that_the_engine_refuses_end_in_its_sentence(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk, choices=replace(CHOICES, voice="NATF0"))
            call.start(call.ask(), hush)
            await eventually(lambda: call.goodbyes, what="goodbye")
            assert call.goodbyes == ["The echo has no voices of its own."] and engine.status.free == 1
            assert call.end == ("unknown_voice", call.goodbyes[0])
            await call.stop()

    play_out(story)


FAULTS: dict[str, tuple[Callable[[ProbeStepper], object], str]] = {
    "exception": (lambda stepper: stepper.fails.add("step"), tick_loop.STEP_FAILED),
    "not finite": (lambda stepper: stepper.unhealthy.add(0), tick_loop.NOT_FINITE),
    "hangs": (lambda stepper: stepper.gate.clear(), tick_loop.ENGINE_DEAD),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_engine_that_fails_is_told_and_never_silent(
    engine: Engine, stepper: ProbeStepper, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tick_loop, "HUNG_SECONDS", 0.4)
    happen, sentence = FAULTS[fault]

    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            happen(stepper)
            assert await eventually(lambda: call.goodbyes, 2.0, "goodbye") < 2.0
            assert call.goodbyes == [sentence] and call.end == ("fault", sentence)
            stepper.gate.set()
            await call.stop()

    play_out(story)


def test_an_output_that_is_cancelled_ends(engine: Engine) -> None:
    """However the moment falls: while it waits, and while something has just changed."""

    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            cancelled = 0
            for number in range(100):
                call.handler._changed.clear()
                emitting = asyncio.create_task(call.handler._wait_for_change())
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                if number % 2:
                    call.handler._changed.set()
                had_something = emitting.done()
                emitting.cancel()
                await asyncio.wait([emitting], timeout=1)
                assert had_something or emitting.cancelled()
                cancelled += emitting.cancelled()
            await call.stop()
            assert cancelled > 50

    play_out(story)
