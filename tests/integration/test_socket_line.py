"""The line as its callers see it: place, estimate, the turn and the answer to it, and who may choose anew."""

from __future__ import annotations

import asyncio

import pytest
from support.call import play_out
from support.engine import ProbeStepper
from support.front import open_front

from personaplex_app.engine.admission import Limits
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.web.look_out import NO_ANSWER
from personaplex_app.web.talk_socket import NO_TALK


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=1)


def test_the_line_moves_up_and_whose_turn_it_is_answers(engine: Engine) -> None:
    async def story() -> None:
        async with (
            open_front(engine) as front,
            front.caller("a") as talking,
            front.caller("b") as first,
            front.caller("c") as second,
        ):
            await talking.talk()
            await first.ask()
            told = await first.next("waiting")
            assert (told["place"], told["of"]) == (1, 1) and told["estimate_seconds"] > 0
            assert "You are number 1 in the line" in told["sentence"]
            await second.ask()
            assert (await second.next("waiting"))["place"] == 2
            await first.next("waiting", fits=lambda told: told["of"] == 2)
            await talking.say("stop")
            turn = await first.next("turn")
            assert turn["seconds"] == 30.0 and turn["sentence"] == "It is your turn. Answer within 30 s."
            await second.next("waiting", fits=lambda told: (told["place"], told["of"]) == (1, 1))
            await first.say("answer")
            await first.come_in()
            assert front.desk.status.waiting == 1

    play_out(story)


def test_who_is_too_late_with_the_sound_waits_as_the_first(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("a") as quick, front.caller("b") as slow:
            await slow.ask()
            await slow.next("admitted")
            await quick.talk()
            await slow.say("sound")
            assert (await slow.next("refused"))["code"] == "no_ticket"
            assert (await slow.next("waiting"))["place"] == 1
            await quick.say("stop")
            await slow.next("turn")

    play_out(story)


def test_who_waits_may_choose_anew(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("a") as talking, front.caller("b") as waiting:
            await talking.talk()
            await waiting.ask(prompt="Be kind.", seed="7")
            await waiting.next("waiting")
            await waiting.say("set", choices={"prompt": "Be strict.", "audio_temperature": 0.3})
            await waiting.say("set", choices={"audio_temperature": 99})
            await talking.say("stop")
            await waiting.next("turn")
            await waiting.say("answer")
            view = await waiting.come_in()
            assert "audio temperature 0.3" in view["applied"] and "seed 7" in view["applied"]
            assert "Audio temperature must be from 0 to 2" in view["sentence"]
            (talk,) = front.desk._talks.values()
            assert talk.choices is not None and talk.choices.prompt == "Be strict."

    play_out(story)


def test_who_does_not_answer_loses_the_turn_and_may_ask_again(engine: Engine) -> None:
    async def story() -> None:
        async with (
            open_front(engine, Limits(turn_seconds=0.4)) as front,
            front.caller("a") as talking,
            front.caller("b") as absent,
            front.caller("c") as next_one,
        ):
            await talking.talk()
            for caller in (absent, next_one):
                await caller.ask()
                await caller.next("waiting")
            await talking.say("stop")
            await absent.next("turn")
            ended = await absent.next("ended")
            assert (ended["code"], ended["sentence"]) == ("no_answer", NO_ANSWER)
            await next_one.next("turn")
            await next_one.say("answer")
            await next_one.come_in()
            await absent.say("answer")
            assert (await absent.next("refused"))["sentence"] == NO_TALK
            await absent.ask()
            await absent.next("waiting")

    play_out(story)


def test_who_leaves_the_line_makes_room(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("a") as talking, front.caller("d") as last:
            await talking.talk()
            async with front.caller("b") as closes, front.caller("c") as stops:
                for caller in (closes, stops, last):
                    await caller.ask()
                    await caller.next("waiting")
                await stops.say("stop")
                assert (await stops.next("ended"))["sentence"] == YOU_STOPPED
                await last.next("waiting", fits=lambda told: told["place"] == 2)
            await last.next("waiting", fits=lambda told: told["place"] == 1)

    play_out(story)


def test_a_second_window_waits_for_the_first(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as first, front.caller("anna") as second:
            await first.talk()
            await second.ask()
            assert "already talking in another window" in (await second.next("waiting"))["sentence"]
            await first.say("stop")
            await second.next("turn")

    play_out(story)


def test_the_place_is_told_again_and_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex_app.web.teller.REPEAT_SECONDS", 0.5)

    async def story() -> None:
        async with open_front(engine) as front, front.caller("a") as talking, front.caller("b") as waiting:
            await talking.talk()
            await waiting.ask()
            await asyncio.sleep(2.5)
            assert 2 <= sum(told["type"] == "waiting" for told in waiting.told) <= 4

    play_out(story)
