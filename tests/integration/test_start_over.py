"""Starting over as a visitor does it, by the socket and beside a WebRTC connection: the connection stays, the talk is
another one, refusals are words, and others neither wait less nor hear anything of it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
import pytest
from support.call import Call, eventually, open_desk, play_out, talking, tone
from support.counting import Counting, counted, counting
from support.desk import Door, slot_free
from support.engine import CHOICES, ProbeStepper, is_over, is_talking
from support.front import Caller, Message, level, open_front

from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.call_clock import CallLimits
from personaplex_app.engine.echo import EchoVoice
from personaplex_app.engine.facade import Engine
from personaplex_app.errors import InvalidInput, NoCapacity
from personaplex_app.web.own_voices import OwnVoices
from personaplex_app.web.starting_over import NOT_YET, start_over
from personaplex_app.web.talk_socket import NO_TALK

ANEW = Choices("", "none", SamplingSettings(audio_temperature=0.1), 5_000)


@pytest.fixture
def stepper() -> ProbeStepper:
    return Counting(slots=2)


async def _started_over(caller: Caller, **choices: Any) -> Message:
    await caller.say("start_over", choices=choices)
    await caller.next("started_over")
    return await caller.next("talk", fits=lambda told: told["state"] == "talking")


# By the socket.


def test_the_connection_stays_and_the_talk_is_another(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as anna, front.caller("bert") as bert:
            first = await anna.talk(prompt="Be kind.", seed="1")
            await bert.talk(seed="7")
            anna.speak(level(0.25))
            bert.speak(counting)
            await anna.next("words", fits=lambda told: "5" in told["text"])
            begun = counted(bert)
            view = await _started_over(anna, prompt="Be strict.", seed="900", audio_temperature=0.3)
            at = len(anna.told)
            assert (view["path"], view["resumed"]) == ("socket", False) and view["grant"] != first["grant"]
            assert view["applied"].endswith("seed 900.") and "audio temperature 0.3," in view["applied"]
            assert "text temperature 0.7," in view["applied"], "what is not named has its default"
            words = await anna.next("words")
            assert words["from_start"] and words["text"].split()[0] == "900"
            heard = len(anna.heard)
            await eventually(lambda: len(anna.heard) > heard + 5, what="sound goes on over the same socket")
            await eventually(lambda: len(counted(bert)) > len(begun) + 10)
            assert counted(bert) == list(range(1, len(counted(bert)) + 1)), "the other hears no gap"
            assert "started_over" not in [told["type"] for told in bert.told + anna.told[at:]]
            assert not engine.can_resume(first["grant"]) and engine.can_resume(view["grant"])
            page = front.desk.metrics.render
            assert b"personaplex_talks_started_over_total 1.0" in page()[0]
            assert b'talks_started_total{path="socket"} 2.0' in page()[0]
            await eventually(lambda: b"prime_seconds_count 3.0" in page()[0], what="the second prompt is counted too")

    play_out(story)


def test_nobody_in_the_line_gets_between_and_a_talk_may_be_started_over_while_it_is_primed(stepper: Counting) -> None:
    stepper.prime_seconds = 0.4

    async def story(engine: Engine) -> None:
        async with open_front(engine) as front, front.caller("anna") as anna, front.caller("bert") as bert:
            for caller in (anna, bert):
                await caller.talk()
                caller.speak(level(0.0))
            async with front.caller("carl") as carl:
                await carl.ask()
                await carl.next("waiting")
                for seed in ("100", "200", "300"):
                    await anna.say("start_over", choices={"seed": seed})
                    await anna.next("talk", fits=lambda told: told["state"] == "priming")
                await anna.next("talk", fits=lambda told: told["applied"].endswith("seed 300."))
                await anna.next("talk", fits=lambda told: told["state"] == "talking")
                assert {told["type"] for told in carl.told} == {"hello", "waiting"} and engine.status.free == 0
            assert not [told for told in bert.told if told["type"] in ("refused", "ended", "lost")]

    with Engine(stepper) as engine:
        play_out(lambda: story(engine))


def test_what_is_refused_is_said_and_the_talk_goes_on_as_it_was(engine: Engine) -> None:
    bad: list[tuple[dict[str, Any], str, str]] = [
        ({"audio_temperature": float("nan")}, "invalid_input", "Audio temperature must be a number"),
        ({"seed": "abc"}, "invalid_input", "The seed must be a whole number"),
        ({"voice": "../../etc/passwd"}, "unknown_voice", "is no voice name"),
        ({"voice": "own-0123456789abcdef"}, "unknown_voice", ""),
        ({"temperature": 1}, "invalid_input", "Unknown choice"),
        ({"voice": "NATF0"}, "unknown_voice", "The echo has no voices of its own"),
    ]

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            first = await caller.talk(seed="1")
            caller.speak(level(0.25))
            for choices, code, sentence in bad:
                await caller.say("start_over", choices=choices)
                refused = await caller.next("refused")
                assert refused["code"] == code and sentence in refused["sentence"]
            await caller.send('{"type":"start_over","choices":[]}')
            assert (await caller.next("refused"))["code"] == "bad_message"
            (talk,) = front.desk._talks.values()
            assert talk.session is not None and is_talking(talk.session) and talk.grant == first["grant"]
            tokens = talk.session.text_tokens
            await eventually(lambda: len(tokens) > 5)
            assert tokens[:6] == [1, 2, 3, 4, 5, 6]
            assert "started_over" not in [told["type"] for told in caller.told]

    play_out(story)


def test_an_own_voice_is_its_owner_s_alone(engine: Engine) -> None:
    async def story() -> None:
        own = OwnVoices()
        voice = own.keep("bert", EchoVoice(), 5.0).name
        async with (
            open_front(engine, own_voices=own) as front,
            front.caller("anna") as anna,
            front.caller("bert") as bert,
        ):
            await anna.talk(seed="1")
            await anna.say("start_over", choices={"voice": voice})
            assert (await anna.next("refused"))["code"] == "unknown_voice"
            await bert.talk(seed="2")
            bert.speak(level(0.0))
            view = await _started_over(bert, voice=voice)
            assert f"Voice {voice}" in view["applied"]

    play_out(story)


def test_starts_are_limited_as_asks_are_and_nothing_is_lost(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as anna, front.caller("bert") as bert:
            await anna.talk()
            anna.speak(level(0.0))
            for seed in range(5):
                await _started_over(anna, seed=str(seed))
            await anna.say("start_over", choices={"seed": "6"})
            refused = await anna.next("refused")
            assert refused["code"] == "too_many_joins" and "Try again in" in refused["sentence"]
            (talk,) = front.desk._talks.values()
            assert talk.session is not None and is_talking(talk.session) and talk.session.choices.seed == 4
            await bert.talk()
            await _started_over(bert, seed="1")

    play_out(story)


def test_before_the_talk_there_is_nothing_to_start_over(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.say("start_over")
            assert (await caller.next("refused"))["sentence"] == NO_TALK
            await caller.ask()
            await caller.next("admitted")
            await caller.say("start_over")
            assert (await caller.next("refused"))["sentence"] == NOT_YET
            await caller.say("sound")
            await caller.next("talk", fits=lambda told: told["state"] == "talking")

    play_out(story)


def test_starting_over_makes_no_call_longer(engine: Engine) -> None:
    async def story() -> None:
        limits = CallLimits(call_seconds=3.0, call_warning_seconds=1.0)
        async with open_front(engine, call_limits=limits) as front, front.caller() as caller:
            await caller.talk()
            caller.speak(level(0.0))
            for _ in range(3):
                await asyncio.sleep(0.5)
                await _started_over(caller)
            ended = await caller.next("ended", 3.0)
            assert ended["code"] == "limit"

    play_out(story)


def test_a_talk_that_breaks_off_after_it_was_started_over_goes_on_with_its_new_grant(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front:
            async with front.caller("anna") as caller:
                first = await caller.talk(seed="1")
                caller.speak(level(0.0))
                view = await _started_over(caller, seed="900")
                await caller.next("words", fits=lambda told: "903" in told["text"])
                await caller.lose()
            async with front.caller("anna") as again:
                await again.say("resume", grant=first["grant"], path="socket")
                assert (await again.next("refused"))["code"] == "grant_unknown"
                await again.say("resume", grant=view["grant"], path="socket")
                assert (await again.come_in())["resumed"]
                words = next(told for told in again.told if told["type"] == "words")
                assert words["text"].split()[:2] == ["900", "901"], "of the talk before nothing comes back"

    play_out(story)


# Beside a WebRTC connection.


@pytest.fixture
def door() -> Door:
    return Door()


def test_a_webrtc_connection_stays(door: Door) -> None:
    async def story(engine: Engine) -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call, tone(440.0))
            assert call.talk is not None
            old = call.session
            await eventually(lambda: old.counters.stepped > 5)
            await start_over(desk, call.talk, "somewhere", ANEW)
            assert call.session is not old and is_over(old) and call.session.counters.stepped == 0
            await eventually(lambda: call.session.counters.stepped > 10)
            assert call.session.text_tokens[:3] == [5_000, 5_001, 5_002] and call.session.counters.heard > 5
            await eventually(lambda: max(np.max(np.abs(packet)) for packet in call.played[-20:]) > 0.4, what="sound")
            assert call.goodbyes == [] == call.peers.closed and call.end is None
            desk.stop(call.talk)
            await slot_free(desk)
            await call.stop()

    with Engine(door) as engine:
        play_out(lambda: story(engine))


def test_who_talks_hears_the_old_talk_until_the_new_one_is_prepared(door: Door) -> None:
    async def story(engine: Engine) -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call, tone(440.0))
            assert call.talk is not None
            old = call.session
            door.door.clear()
            beginning = asyncio.create_task(start_over(desk, call.talk, "somewhere", ANEW))
            stepped = old.counters.stepped
            await eventually(lambda: old.counters.stepped > stepped + 5)
            with pytest.raises(InvalidInput, match="nothing to start over yet"):
                await start_over(desk, call.talk, "somewhere", CHOICES)
            door.door.set()
            await beginning
            await eventually(lambda: is_talking(call.session))
            assert call.session.choices == ANEW
            found = re.search(r'sound_frames_total{fate="heard"} (\d+)', desk.metrics.render()[0].decode())
            assert found is not None and int(found[1]) >= old.counters.heard > stepped + 5, "all of it counts"
            await call.stop()

    with Engine(door) as engine:
        play_out(lambda: story(engine))


@pytest.mark.parametrize("how", ["stop", "lose"])
def test_who_leaves_while_it_is_prepared_leaves_nothing_behind(door: Door, how: str) -> None:
    async def story(engine: Engine) -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            assert call.talk is not None
            grant = call.talk.grant
            door.door.clear()
            beginning = asyncio.create_task(start_over(desk, call.talk, "somewhere", ANEW))
            await asyncio.sleep(0.1)
            getattr(desk, how)(call.talk)
            await slot_free(desk)
            door.door.set()
            with pytest.raises(Exception, match="You ended the talk" if how == "stop" else "connection was lost"):
                await beginning
            assert engine.can_resume(grant) is (how == "lose") and engine.status.free == 1
            await call.stop()

    with Engine(door) as engine:
        play_out(lambda: story(engine))


@pytest.mark.parametrize("how", ["stop", "lose"])
def test_who_leaves_in_the_moment_it_begins_leaves_nothing_behind(
    door: Door, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(engine: Engine) -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            loop, begin = asyncio.get_running_loop(), engine.start_over

            async def leave() -> None:
                assert call.talk is not None
                getattr(desk, how)(call.talk)

            def begun(*args: Any) -> Any:
                fresh = begin(*args)
                asyncio.run_coroutine_threadsafe(leave(), loop).result(5)
                return fresh

            monkeypatch.setattr(engine, "start_over", begun)
            assert call.talk is not None
            await start_over(desk, call.talk, "somewhere", ANEW)
            await slot_free(desk)
            assert call.talk.ended is not None and is_over(call.session) and engine.parked.count == 0
            assert b"talks_started_over_total 0.0" in desk.metrics.render()[0]
            await call.stop()

    with Engine(door) as engine:
        play_out(lambda: story(engine))


def test_a_full_house_of_starts_is_told_at_the_desk(door: Door) -> None:
    async def story(engine: Engine) -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            assert call.talk is not None
            for _ in range(5):
                await start_over(desk, call.talk, "somewhere", ANEW)
            with pytest.raises(NoCapacity, match="Too many starts"):
                await start_over(desk, call.talk, "somewhere", ANEW)
            await eventually(lambda: is_talking(call.session))
            await call.stop()

    with Engine(door) as engine:
        play_out(lambda: story(engine))
