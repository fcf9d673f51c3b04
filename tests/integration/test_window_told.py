"""The model's window as a client is told of it: while a talk fills it, overflows it, and where it is read anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.call import play_out
from support.engine import ProbeStepper
from support.front import Caller, level, open_front

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices
from personaplex_app.engine.echo import EchoStep
from personaplex_app.engine.facade import Engine
from personaplex_app.window import Window

SPEED = 10.0
PROMPT, POSITIONS, KEPT = 6, 20, 5


class Opening(Choices):
    """What is primed, and how many positions of the window that takes."""

    positions = PROMPT


class SmallWindow(ProbeStepper):
    """An echo that remembers twenty positions, which slide or, where it keeps some frames, are read anew."""

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.window = Window(POSITIONS)
        self.at = PROMPT

    def open(self, choices: Choices, voice: Any = None) -> Choices:
        return Opening(**vars(super().open(choices, voice)))

    def used(self, slot: int) -> int:
        return self.at

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        kept = self.window.kept_frames
        self.at = PROMPT + kept if kept is not None and self.at >= POSITIONS - 2 else self.at + 1
        return super().step(heard)


@pytest.fixture
def stepper() -> SmallWindow:
    return SmallWindow()


def _windows(engine: Engine, until: str) -> list[dict[str, Any]]:
    """All that a talk's client is told of the window, until this of it is true or more than nothing."""
    told: list[dict[str, Any]] = []

    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.talk(seed=5)
            caller.speak(level(0.1), SPEED)
            await caller.next("talk", fits=lambda talk: talk["window"][until])
            talks = _talks(caller)
            assert {talk["seed"] for talk in talks} == {"5"}
            told.extend({**talk["window"], "frames": talk["frames"]} for talk in talks if talk["state"] == "talking")

    play_out(story)
    return told


def _talks(caller: Caller) -> list[dict[str, Any]]:
    return [message for message in caller.told if message["type"] == "talk"]


def test_it_is_told_when_the_oldest_is_forgotten_and_when_all_of_the_prompt_is(engine: Engine) -> None:
    told = _windows(engine, "forgot_prompt")
    assert (told[0]["positions"], told[0]["prompt"], told[0]["kept"]) == (POSITIONS, PROMPT, None)
    assert all(0 <= one["used"] - PROMPT - one["frames"] <= 1 for one in told), "a position a frame"
    assert not told[0]["overflows"]
    overflows = next(one for one in told if one["overflows"])
    assert POSITIONS < overflows["used"] <= POSITIONS + PROMPT and not overflows["forgot_prompt"]
    assert told[-1]["used"] >= POSITIONS + PROMPT
    assert len(told) <= 5, "no message for every frame"


def test_it_is_told_when_the_past_is_read_anew(engine: Engine, stepper: SmallWindow) -> None:
    stepper.window = Window(POSITIONS, KEPT)
    told = _windows(engine, "renewals")
    assert (told[0]["kept"], told[0]["renewals"]) == (KEPT, 0)
    assert told[-1]["renewals"] == 1 and PROMPT + KEPT <= told[-1]["used"] < POSITIONS
    assert not any(one["overflows"] or one["forgot_prompt"] for one in told)
