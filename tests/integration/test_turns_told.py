"""Turns on the socket: told as they change, all anew after a resume, ended with the talk."""

from __future__ import annotations

import pytest
from support.call import eventually, play_out
from support.engine import ProbeStepper, frame_of
from support.front import Caller, Message, level, open_front

from personaplex_app.engine.facade import Engine

SPEED = 10.0
WORDS = {2: b" <b>Good", 4: b"</b>", 5: b" day.", 30: b" Bye."}  # by frame


class TalkativeStepper(ProbeStepper):
    """An echo with two turns to say; a step's token is its frame where the seed is 0."""

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.has_words = True

    def text(self, token: int) -> bytes:
        return WORDS.get(token, b"")


@pytest.fixture
def stepper() -> TalkativeStepper:
    return TalkativeStepper()


def _persona(told: list[Message]) -> list[tuple[int, str, float, float | None]]:
    told = [one for one in told if one["type"] == "said" and one["who"] == "persona"]
    return [(one["number"], one["text"], one["start"], one["end"]) for one in told]


async def _is_said(caller: Caller, text: str) -> None:
    await caller.next("said", fits=lambda one: one["text"] == text)


def test_turns_are_told_as_they_change_and_all_anew_after_a_resume(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front:
            async with front.caller("anna") as first:
                await first.talk(seed=0)
                first.speak(level(0.1), SPEED)
                await _is_said(first, "Bye.")
                grant = [one["grant"] for one in first.told if one["type"] == "talk"][-1]
                said = _persona(first.told)
                assert (0, "<b>Good</b> day.", 0.16, None) in said, "literally, and open at first"
                assert said[-2:] == [(0, "<b>Good</b> day.", 0.16, 0.48), (1, "Bye.", 2.4, None)]
                assert len(said) == len(set(said)), "nothing is told twice"
                words = "".join(one["text"] for one in first.told if one["type"] == "words")
                assert words == "<b>Good</b> day. Bye.", "for those who know no turns"
                await first.lose()
            async with front.caller("anna") as second:
                await second.say("resume", grant=grant)
                await second.come_in()
                second.speak(level(0.1), SPEED)
                await second.next("said", fits=lambda one: one["number"] == 1)
                assert _persona(second.told)[:2] == [
                    (0, "<b>Good</b> day.", 0.16, 0.48),
                    (1, "Bye.", 2.4, _persona(second.told)[1][3]),
                ]

    play_out(story)


def test_the_word_of_a_step_that_ran_while_the_talk_was_stopped_is_told(
    engine: Engine, stepper: TalkativeStepper
) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            await caller.talk(seed=5)
            (talk,) = front.desk._talks.values()
            with stepper.stopped():
                await caller.say_frame(frame_of(0.1))
                await eventually(lambda: stepper.at_gate, what="a step runs")
                await caller.say("stop")
                await eventually(lambda: talk.ended, what="stopped")
            await caller.next("ended")
            assert _persona(caller.told)[-1] == (0, "day.", 0.0, 0.08)

    play_out(story)


def test_the_end_of_a_talk_is_the_end_of_its_turn(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            await caller.talk(seed=0)
            caller.speak(level(0.1))
            await _is_said(caller, "<b>Good</b> day.")
            await caller.say("stop")
            await caller.next("ended")
            assert _persona(caller.told)[-1] == (0, "<b>Good</b> day.", 0.16, 0.48)

    play_out(story)
