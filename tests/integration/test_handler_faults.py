"""An error anywhere in a call's way ends it with a sentence; no exception gets out, no sound stops untold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.call import Call, args, eventually, hush, play_out, talking
from support.engine import ProbeStepper, is_over

from personaplex_app.engine import tick_loop
from personaplex_app.engine.facade import Engine
from personaplex_app.web.handler import UNEXPECTED


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=1)


@pytest.mark.parametrize("part", ["_take_new_settings", "_page_update", "_wait_for_change"])
def test_an_error_in_the_output_ends_the_call_in_words(
    engine: Engine, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("told to fail")

    async def story() -> None:
        call = Call(engine)
        await talking(call)
        session = call.session
        monkeypatch.setattr(call.handler, part, fail)
        await eventually(lambda: UNEXPECTED in call.goodbyes, what="goodbye")
        await eventually(lambda: engine.status.free == 1, 1.0, "slot free")
        assert is_over(session) and session.ended_because == UNEXPECTED
        monkeypatch.undo()
        await call.stop()

    play_out(story)


def test_an_error_while_starting_ends_in_words(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        call = Call(engine)
        monkeypatch.setattr(engine.stepper, "open", None)
        call.start(args(), hush)
        await eventually(lambda: call.goodbyes, what="goodbye")
        assert call.goodbyes == [UNEXPECTED] and call.view.over and engine.status.free == 1
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
        call = Call(engine)
        await talking(call)
        happen(stepper)
        assert await eventually(lambda: call.goodbyes, 2.0, "goodbye") < 2.0
        assert call.goodbyes == [sentence] and call.shown.status == f"Ended: {sentence}"
        stepper.gate.set()
        await call.stop()

    play_out(story)


def test_an_output_that_is_cancelled_ends(engine: Engine) -> None:
    """However the moment falls: while it waits, and while something has just changed."""

    async def story() -> None:
        call = Call(engine)
        await talking(call)
        for number in range(100):
            emitting = asyncio.create_task(call.handler._wait_for_change())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if number % 2:
                call.handler._changed.set()
            emitting.cancel()
            await asyncio.wait([emitting], timeout=1)
            assert emitting.cancelled()
        await call.stop()

    play_out(story)
