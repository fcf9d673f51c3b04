"""The talk's socket before the talk: asking, the line, refusals in words, and what is no message."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.call import eventually, play_out
from support.engine import ProbeStepper
from support.front import ICE, Caller, OpenFront, level, open_front
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from personaplex_app.assemble import build_stepper
from personaplex_app.engine.admission import Limits
from personaplex_app.engine.facade import Engine
from personaplex_app.settings import EngineChoice
from personaplex_app.web import talk_socket
from personaplex_app.web.desk import TOO_LATE
from personaplex_app.web.look_out import NOT_CONNECTED
from personaplex_app.web.talk_socket import MOST_BAD_MESSAGES, NO_TALK

GRANT = "x" * 32


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=1)


# At once.


def test_a_caller_is_greeted_and_admitted(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            assert await caller.next("hello") == {
                "type": "hello",
                "protocol": 1,
                "sample_rate_hz": 24000,
                "frame_samples": 1920,
                "slots": 1,
                "free": 1,
            }
            await caller.ask(seed="7")
            admitted = await caller.next("admitted")
            assert len(admitted["ticket"]) >= 32 and front.desk.talk_with(admitted["ticket"]) is not None
            assert (admitted["ice_servers"], admitted["connect_seconds"]) == (list(ICE), 20.0)
            assert engine.status.free == 1, "a ticket alone holds no slot"

    play_out(story)


def test_a_ping_comes_back(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.say("ping", at=12.25)
            pong = await caller.next("pong")
            assert pong["at"] == 12.25 and pong["step_ms"] >= 0

    play_out(story)


def test_who_never_opens_a_path_is_told(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine, Limits(connect_seconds=0.3)) as front, front.caller() as caller:
            await caller.ask()
            ended = await caller.next("ended")
            assert (ended["code"], ended["sentence"]) == ("lost", NOT_CONNECTED)
            await caller.say("sound")
            assert (await caller.next("refused"))["sentence"] == NO_TALK
            await caller.talk()

    play_out(story)


# Refusals.


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"audio_temperature": float("nan")}, "Audio temperature must be a number from 0 to 2"),
        ({"audio_temperature": float("inf")}, "Audio temperature must be a number from 0 to 2"),
        ({"audio_temperature": -1}, "Audio temperature must be from 0 to 2"),
        ({"text_temperature": 99}, "Text temperature must be from 0 to 2"),
        ({"audio_temperature": 10**400}, "Audio temperature must be a number from 0 to 2"),
        ({"audio_top_k": -5}, "Audio top-k must be from 0"),
        ({"text_top_k": 2_000_000_000}, "Text top-k must be from 0"),
        ({"repetition_penalty": None}, "The repetition penalty must be a number"),
        ({"seed": "abc"}, "The seed must be a whole number"),
        ({"seed": []}, "The seed must be a whole number"),
        ({"seed": "<img src=x>"}, "The seed must be a whole number"),
        ({"voice": "../../etc/passwd"}, "is no voice name"),
        ({"voice": "NATF0\x00"}, "is no voice name"),
        ({"prompt": {"a": 1}}, "The prompt must be a text"),
        ({"temperature": 1}, "Unknown choice 'temperature'"),
    ],
)
def test_values_that_cannot_be_used_are_refused_in_words(engine: Engine, choices: Any, sentence: str) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.ask(**choices)
            refused = await caller.next("refused")
            assert refused["code"] in ("invalid_input", "unknown_voice") and sentence in refused["sentence"]
            await caller.ask()
            await caller.next("admitted")

    play_out(story)


@pytest.mark.parametrize(
    ("choices", "code", "sentence"),
    [({"voice": "NATF0"}, "unknown_voice", "The echo has no voices of its own")],
)
def test_what_only_the_engine_can_tell_is_told_when_the_sound_comes(
    engine: Engine, choices: Any, code: str, sentence: str
) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.ask(**choices)
            await caller.next("admitted")
            await caller.say("sound")
            await caller.next("refused", fits=lambda told: told["code"] == code and sentence in told["sentence"])
            await caller.next("ended", fits=lambda told: told["code"] == code and sentence in told["sentence"])
            assert engine.status.free == 1 and front.desk.status.talking == 0
            await caller.talk()

    play_out(story)


def test_prompts_that_no_window_holds_are_refused_in_words(cache_outside_home: Path) -> None:
    async def story(engine: Engine) -> None:
        async with open_front(engine) as front, front.caller() as caller:
            for prompt, words in (("x" * 100_000, "100,000 characters"), ("half a pair: \ud800", "half a pair")):
                await caller.ask(prompt=prompt)
                await caller.next("admitted")
                await caller.say("sound")
                assert words in (await caller.next("refused"))["sentence"]
                await caller.next("ended")
                assert engine.status.free == 1

    with Engine(build_stepper(EngineChoice("mini", cache_outside_home, device="cpu"))) as engine:
        play_out(lambda: story(engine))


@pytest.mark.parametrize("seed", ["", None, "-1"])
def test_no_seed_draws_one_and_shows_it(engine: Engine, seed: Any) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            view = await caller.talk(seed=seed)
            number = int(view["applied"].rpartition("seed ")[2].rstrip("."))
            assert number >= 0

    play_out(story)


def test_a_visitor_has_two_tickets_and_six_joins_a_minute(engine: Engine) -> None:
    async def story() -> None:
        async with (
            open_front(engine) as front,
            front.caller("anna") as first,
            front.caller("anna") as second,
            front.caller("anna") as third,
            front.caller() as stranger,
        ):
            for caller in (first, second):
                await caller.ask()
                await caller.next("admitted")
            await third.ask()
            assert (await third.next("refused"))["code"] == "too_many_tickets"
            for _ in range(4):
                await second.say("stop")
                await second.next("ended")
                await second.ask()
                await second.next("admitted")
            await second.say("stop")
            await second.ask()
            refused = await second.next("refused")
            assert refused["code"] == "too_many_joins" and "Try again in" in refused["sentence"]
            await stranger.ask()
            await stranger.next("admitted")

    play_out(story)


def test_draining_refuses_and_says_so_on_the_other_routes_too(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as talking, front.caller() as late:
            await talking.talk()
            front.desk.drain("The server is about to stop.", 20.0)
            warning = await talking.next("warning")
            assert (warning["code"], warning["seconds"]) == ("draining", 20)
            await late.ask()
            refused = await late.next("refused")
            assert (refused["code"], refused["sentence"]) == ("draining", "The server is about to stop.")
            lines = await _lines(front)
            assert (lines["draining"], lines["sentence"]) == ("The server is about to stop.",) * 2

    play_out(story)


async def _lines(front: OpenFront, **headers: str) -> Any:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{front.http}/talk/lines", headers=headers)).json()


def test_how_many_lines_are_free_is_told_to_anybody(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller, front.caller() as second:
            lines = await _lines(front)
            assert (lines["slots"], lines["free"], lines["waiting"], lines["failed"]) == (1, 1, 0, "")
            assert lines["sentence"] == "Ready: 1 of 1 lines free."
            await caller.talk()
            await second.ask()
            await second.next("waiting")
            lines = await _lines(front)
            assert (lines["free"], lines["waiting"]) == (0, 1) and "1 in the line." in lines["sentence"]
            await caller.say("stop")
            await second.next("turn")
            lines = await _lines(front)
            assert (engine.status.free, lines["free"]) == (1, 0) and "one line only" in lines["sentence"]
            foreign = await _lines(front, origin="https://elsewhere.example")
            assert foreign == {"sentence": "This page belongs to another origin."}

    play_out(story)


# What is no message.


async def _is_refused(caller: Caller, raw: str | bytes, words: str) -> None:
    await caller.send(raw)
    refused = await caller.next("refused")
    assert refused["code"] == "bad_message" and words in refused["sentence"]


def test_what_cannot_be_understood_is_refused_and_too_much_of_it_closes_the_socket(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            bad: list[tuple[str | bytes, str]] = [
                ("hello", "must be JSON"),
                ('{"type":"dance"}', "one of ask, answer"),
                ('{"type":"answer"}', NO_TALK),
                ('{"type":"sound"}', NO_TALK),
                ('{"type":"set"}', NO_TALK),
                (b"", "PCM16"),
                (b"odd", "PCM16"),
                (bytes(19_202), "PCM16"),
            ]
            for raw, words in bad:
                await _is_refused(caller, raw, words)
            await caller.talk()
            await _is_refused(caller, '{"type":"ask"}', "has a talk already")
            await _is_refused(caller, '{"type":"resume","grant":"x"}', "has a talk already")
            for _ in range(MOST_BAD_MESSAGES - len(bad) - 2):
                await _is_refused(caller, "junk", "must be JSON")
            await eventually(lambda: caller.closed, 2.0, "closed")
            assert caller.closed == 1008
            await eventually(lambda: engine.status.free, 2.0, "slot free")

    play_out(story)


def test_sound_that_nobody_waits_for_is_no_error(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            for raw in (bytes(2), bytes(3840), bytes(19_200)):
                await caller.send(raw)
            await caller.talk()
            await caller.say("stop")
            await caller.next("ended")
            await caller.send(bytes(3840))
            await caller.say("ping", at=1)
            await caller.next("pong")
            assert not [told for told in caller.told if told["type"] == "refused"]

    play_out(story)


def test_a_wrong_grant_is_told(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.say("resume", grant=GRANT, path="socket")
            refused = await caller.next("refused")
            assert (refused["code"], refused["sentence"]) == ("grant_unknown", TOO_LATE)
            await caller.talk()

    play_out(story)


def test_a_socket_that_nobody_uses_is_closed_and_a_ping_is_no_use(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talk_socket, "UNUSED_SECONDS", 0.8)

    async def story() -> None:
        async with open_front(engine) as front, front.caller() as idle, front.caller() as talks:
            await talks.talk()
            talks.speak(level(0.0))
            pinging = asyncio.create_task(_ping(idle))
            await eventually(lambda: idle.closed, 2.0, "the idle one is closed, whatever it says")
            await pinging
            assert idle.closed == 1000 and talks.closed is None
            await talks.mute()
            front.desk.fail(next(iter(front.desk._talks.values())), "Over.")
            await eventually(lambda: talks.closed, 2.0, "and the other once its talk is over")

    play_out(story)


async def _ping(caller: Caller) -> None:
    while caller.closed is None:
        with contextlib.suppress(ConnectionClosed):
            await caller.say("ping", at=1)
        await asyncio.sleep(0.1)


# The door.


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://elsewhere.example", 403), ("null", 403), ("https://friend.example", None), (None, None)],
)
def test_a_foreign_page_does_not_get_in(engine: Engine, origin: str | None, status: int | None) -> None:
    async def story() -> None:
        async with open_front(engine, origins=("https://friend.example",)) as front:
            headers = {"origin": origin} if origin else {}
            if status is None:
                async with front.caller(**headers) as caller:
                    await caller.next("hello")
                return
            with pytest.raises(InvalidStatus) as refused:
                async with connect(front.socket, additional_headers=headers):
                    pass
            assert refused.value.response.status_code == status

    play_out(story)


def test_our_own_page_does(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller(origin=front.http) as caller:
            await caller.next("hello")

    play_out(story)
