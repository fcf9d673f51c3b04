"""A visitor's own voice by its routes: taken with consent, used by its owner, deleted at once, bounded in every way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from support.call import eventually, open_desk, play_out
from support.clips import sound_file, speech
from support.engine import ProbeStepper
from support.front import OpenFront, level, open_front
from support.voice_visitor import CONSENT, PIECE, Answer, Body, post, send, visiting

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm
from personaplex_app.controls import Choices
from personaplex_app.engine.echo import EchoVoice
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.tick_loop import CLOSING
from personaplex_app.errors import InvalidInput
from personaplex_app.network import Network
from personaplex_app.voice_clip import ECHO_NOTE, PreparedClip
from personaplex_app.web import clip_door, own_voice_routes
from personaplex_app.web.clip_door import BUSY, NO_CONSENT, NO_COOKIE, ONE_AT_A_TIME, TOO_LARGE, TOO_OFTEN
from personaplex_app.web.desk import UNEXPECTED
from personaplex_app.web.doors import Doors
from personaplex_app.web.own_voices import MOST_OF_ONE, OwnVoices
from personaplex_app.web.visitors import COOKIE, Visitors

Story = Callable[[OpenFront], Any]


class VoicesStepper(ProbeStepper):
    """Notes which voice each talk was opened with, and what sound voices were made of."""

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.opened: list[tuple[str, Any]] = []
        self.learned: list[Pcm] = []

    def open(self, choices: Choices, voice: Any = None) -> Choices:
        self.opened.append((choices.voice, voice))
        return super().open(choices, voice)

    def voice_pieces(self, pcm: Pcm) -> Any:
        self.learned.append(pcm)
        return super().voice_pieces(pcm)


@pytest.fixture
def stepper() -> VoicesStepper:
    return VoicesStepper()


@pytest.fixture(scope="module")
def clip() -> bytes:
    return sound_file(speech(), 48_000)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every clip is good, and takes no time."""
    prepared = PreparedClip(speech(), ())
    monkeypatch.setattr(own_voice_routes, "_prepared", lambda data, most_seconds: prepared)


def told(engine: Engine, story: Story, **options: Any) -> None:
    async def run() -> None:
        async with open_front(engine, **options) as front:
            await story(front)

    play_out(run)


async def made(front: OpenFront, visitor: str, clip: bytes = b"clip") -> str:
    async with visiting(front, visitor) as client:
        answer = await send(client, clip)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["voice"])


# From the clip to the voice.


def test_a_clip_becomes_a_voice_of_its_owner_alone(engine: Engine, stepper: VoicesStepper, clip: bytes) -> None:
    async def story(front: OpenFront) -> None:
        async with visiting(front, "anna") as anna, visiting(front, "bert") as bert, visiting(front, None) as stranger:
            answer = (await send(anna, clip)).json()
            assert answer["voice"].startswith("own-") and answer["notes"] == [ECHO_NOTE]
            assert 3500 < answer["expires_seconds"] <= 3600 and answer["seconds"] > 5
            (pcm,) = stepper.learned
            assert len(pcm) == pytest.approx(answer["seconds"] * SAMPLE_RATE_HZ, abs=SAMPLE_RATE_HZ / 100)
            listed = (await anna.get("/voices/own")).json()
            assert listed == {"voices": [answer | {"expires_seconds": listed["voices"][0]["expires_seconds"]}]}
            for other in (bert, stranger):
                assert (await other.get("/voices/own")).json() == {"voices": []}
                refused = await other.delete(f"/voices/own/{answer['voice']}")
                never = await other.delete("/voices/own/own-0123456789abcdef")
                assert refused.status_code == never.status_code == 404
                assert refused.text.replace(answer["voice"], "") == never.text.replace("own-0123456789abcdef", "")
            assert (await anna.delete(f"/voices/own/{answer['voice']}")).json() == {}
            assert (await anna.get("/voices/own")).json() == {"voices": []} and len(front.desk.own_voices) == 0
        text = front.desk.metrics.render()[0].decode()
        assert "personaplex_voices_taken_total 1.0" in text

    told(engine, story)


def test_nothing_of_an_answer_is_kept_by_caches(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with visiting(front, "anna") as anna:
            for answer in (await anna.get("/voices/own"), await send(anna, b"x"), await anna.delete("/voices/own/x")):
                assert answer.headers["cache-control"] == "no-store"

    told(engine, story)


def test_a_clip_that_makes_no_voice_is_refused_with_its_figure(engine: Engine, stepper: VoicesStepper) -> None:
    async def story(front: OpenFront) -> None:
        async with visiting(front, "anna") as anna:
            for data, sentence in (
                (sound_file(speech()[:4_800]), "it has 0.2 s"),
                (sound_file(speech() * 0), "The clip is silent"),
                (b"no sound", "no sound file that can be read"),
                (b"", "no sound file that can be read"),
            ):
                answer = await send(anna, data)
                assert answer.status_code == 422 and sentence in answer.json()["error"]
        assert not stepper.learned and not len(front.desk.own_voices)
        text = front.desk.metrics.render()[0].decode()
        for code, count in (("clip_short", 1), ("clip_silent", 1), ("clip_unreadable", 2)):
            assert f'personaplex_voices_refused_total{{code="{code}"}} {count}.0' in text

    told(engine, story)


# Talking with it.


def test_the_owner_talks_with_it_and_nobody_else(engine: Engine, stepper: VoicesStepper, quick: None) -> None:
    async def story(front: OpenFront) -> None:
        name = await made(front, "anna")
        async with front.caller("bert") as bert, front.caller("anna") as anna, front.caller() as stranger:
            refusals = set()
            for caller in (bert, stranger):
                for asked in (name, "own-0123456789abcdef"):
                    await caller.ask(voice=asked)
                    refused = await caller.next("refused")
                    assert refused["code"] == "unknown_voice"
                    refusals.add(refused["sentence"].replace(asked, "NAME"))
            assert len(refusals) == 1, "another's voice and none at all are told in the same words"
            await anna.talk(voice=name)
        ((asked, voice),) = stepper.opened
        assert asked == name and voice == EchoVoice()

    told(engine, story)


def test_a_voice_that_is_deleted_ends_no_talk_and_opens_no_other(
    engine: Engine, stepper: VoicesStepper, quick: None
) -> None:
    async def story(front: OpenFront) -> None:
        name = await made(front, "anna")
        async with front.caller("anna") as talks, visiting(front, "anna") as client:
            await talks.talk(voice=name)
            talks.speak(level(0.25))
            assert (await client.delete(f"/voices/own/{name}")).status_code == 200
            await talks.say("set", choices={"text_top_k": 3})
            await talks.next("talk", fits=lambda view: "text top-k 3" in str(view))
            heard = len(talks.heard)
            await eventually(lambda: len(talks.heard) > heard + 3, what="the talk goes on")
            await talks.say("set", choices={"voice": name, "text_top_k": 4})
            await talks.say("stop")
            await talks.next("ended")
            await talks.ask(voice=name)
            assert (await talks.next("refused"))["code"] == "unknown_voice"

    told(engine, story)


def test_a_voice_that_is_deleted_in_the_line_is_told_when_it_is_the_turn(
    engine: Engine, stepper: VoicesStepper, quick: None
) -> None:
    async def story(front: OpenFront) -> None:
        name = await made(front, "anna")
        async with front.caller("anna") as anna:
            await anna.ask(voice=name)
            await anna.next("admitted")
            front.desk.own_voices.delete("anna", name)
            await anna.say("sound")
            ended = await anna.next("ended")
            assert ended["code"] == "unknown_voice" and name in ended["sentence"]
        assert not stepper.opened and engine.status.free == 1

    told(engine, story)


def test_who_waits_cannot_choose_another_s_voice(engine: Engine, quick: None) -> None:
    async def story(front: OpenFront) -> None:
        name = await made(front, "anna")
        async with front.caller("carl") as first, front.caller("bert") as bert:
            await first.talk()
            first.speak(level(0.1))
            await bert.ask()
            await bert.next("waiting")
            await bert.say("set", choices={"voice": name})
            await asyncio.sleep(0.1)
            (waiting,) = [talk for talk in front.desk._talks.values() if talk.ticket.visitor == "bert"]
            assert waiting.choices is not None and waiting.choices.voice == "none" and name in waiting.notice

    told(engine, story)


def test_after_its_time_a_voice_is_gone_from_memory(
    engine: Engine, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_voice_routes, "SWEEP_AFTER_SECONDS", 0.05)

    async def story(front: OpenFront) -> None:
        await made(front, "anna")
        assert len(front.desk.own_voices) == 1
        await eventually(lambda: len(front.desk.own_voices) == 0, 2.0, "nobody asked, and it is dropped")

    told(engine, story, own_voices=OwnVoices(kept_seconds=0.2))


# Who is turned away.


def test_another_origin_and_who_has_not_logged_in_are_turned_away(engine: Engine, quick: None) -> None:
    async def story(front: OpenFront) -> None:
        async with visiting(front, "anna", origin="https://evil.example") as page:
            for answer in (
                await send(page, b"x"),
                await page.get("/voices/own"),
                await page.delete("/voices/own/own-1"),
            ):
                assert answer.status_code == 403 and "another origin" in answer.json()["error"]
        assert not len(front.desk.own_voices)

    told(engine, story)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "DELETE"])
def test_a_wrong_method_is_refused_in_words(engine: Engine, method: str) -> None:
    async def story(front: OpenFront) -> None:
        async with visiting(front, "anna") as client:
            paths = ["/voices/own"] if method == "DELETE" else ["/voices/own", "/voices/own/own-1"]
            for path in paths:
                answer = await client.request(method, path)
                assert answer.status_code == 405 and answer.json()["error"]
            assert (await client.get("/voices/own/own-1")).status_code == 405
            assert (await client.post("/voices/own/own-1", content=b"x")).status_code == 405

    told(engine, story)


def _alone(engine: Engine, story: Callable[[Starlette, dict[str, str], Any], Any]) -> None:
    """The routes without a server: the test gives every piece of the body."""

    async def run() -> None:
        visitors = Visitors()
        async with open_desk(engine) as desk:
            app = Starlette(routes=own_voice_routes.own_voice_routes(desk, Doors(visitors, Network())))
            cookie = {"cookie": f"{COOKIE}={visitors.sign('anna')}", "host": "here"}
            await story(app, cookie, desk)

    play_out(run)


def _never(number: int) -> Mapping[str, Any]:
    raise AssertionError("the body is read")


def _endless(number: int) -> Mapping[str, Any]:
    return {"type": "http.request", "body": PIECE, "more_body": True}


def test_what_is_refused_at_the_door_is_refused_before_a_byte_is_read(engine: Engine) -> None:
    async def story(app: Starlette, cookie: dict[str, str], desk: Any) -> None:
        async def refused(headers: dict[str, str]) -> tuple[int, str]:
            answer: Answer = await post(app, Body(_never), headers)
            return answer.status, answer.error

        assert await refused(cookie) == (422, NO_CONSENT)
        assert await refused({**cookie, "x-consent": "no"}) == (422, NO_CONSENT)
        assert await refused({**CONSENT, "host": "here"}) == (403, NO_COOKIE)
        assert await refused({**CONSENT, "cookie": f"{COOKIE}=anna.forged", "host": "here"}) == (403, NO_COOKIE)
        for length in ("12582913", "9" * 30):
            assert await refused({**cookie, **CONSENT, "content-length": length}) == (413, TOO_LARGE)
        desk.drain("We are closing.", 1.0)
        assert await refused({**cookie, **CONSENT}) == (429, "We are closing.")

    _alone(engine, story)


def test_a_clip_that_is_too_large_is_read_no_further_than_that(engine: Engine) -> None:
    async def story(app: Starlette, cookie: dict[str, str], desk: Any) -> None:
        body = Body(_endless)
        answer = await post(app, body, {**cookie, **CONSENT})
        assert (answer.status, answer.error) == (413, TOO_LARGE) and body.taken == 13

    _alone(engine, story)


def test_a_clip_that_does_not_arrive_is_given_up(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_voice_routes, "BODY_SECONDS", 0.1)

    async def story(app: Starlette, cookie: dict[str, str], desk: Any) -> None:
        class Slow(Body):
            async def receive(self) -> dict[str, Any]:
                await asyncio.sleep(30)
                return {}

        answer = await post(app, Slow(_never), {**cookie, **CONSENT})
        assert answer.status == 422 and "did not arrive" in answer.error

    _alone(engine, story)


def test_who_goes_away_while_sending_leaves_nothing(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    async def story(app: Starlette, cookie: dict[str, str], desk: Any) -> None:
        gone = Body(lambda number: {"type": "http.disconnect"} if number > 2 else _endless(number))
        answer = await post(app, gone, {**cookie, **CONSENT})
        assert answer.status == own_voice_routes.GONE_AWAY and not caplog.records
        body = Body(lambda number: {"type": "http.request", "body": b"x"})
        assert (await post(app, body, {**cookie, **CONSENT})).status == 422, "and may come again"

    _alone(engine, story)


# How many.


def test_a_visitor_has_so_many_voices_at_once(engine: Engine, quick: None) -> None:
    async def story(front: OpenFront) -> None:
        names = [await made(front, "anna") for _ in range(MOST_OF_ONE)]
        async with visiting(front, "anna") as anna:
            answer = await send(anna, b"x")
            assert answer.status_code == 429 and "delete one first" in answer.json()["error"]
            await anna.delete(f"/voices/own/{names[0]}")
            assert (await send(anna, b"x")).status_code == 200

    told(engine, story)


def test_a_visitor_and_an_address_send_so_many_clips_a_minute(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: bytes, most_seconds: float) -> PreparedClip:
        raise InvalidInput("no good", code="clip_noisy")

    monkeypatch.setattr(own_voice_routes, "_prepared", refuse)

    async def answers(front: OpenFront, visitor: str, count: int) -> list[int]:
        async with visiting(front, visitor) as client:
            return [(await send(client, b"x")).status_code for _ in range(count)]

    async def story(front: OpenFront) -> None:
        assert await answers(front, "anna", 7) == [422] * 6 + [429]
        async with visiting(front, "anna") as anna:
            assert (await send(anna, b"x")).json() == {"error": TOO_OFTEN}
        others = [await answers(front, f"visitor{number}", 6) for number in range(4)]
        assert others == [[422] * 6] * 4, "24 more, 30 with hers"
        assert await answers(front, "another", 1) == [429]

    told(engine, story)


def test_only_so_many_clips_are_at_work_at_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = PreparedClip(speech(), ())
    begun: list[float] = []

    def slow(data: bytes, most_seconds: float) -> PreparedClip:
        begun.append(time.monotonic())
        time.sleep(0.3)
        return prepared

    monkeypatch.setattr(own_voice_routes, "_prepared", slow)
    monkeypatch.setattr(clip_door, "MOST_AT_ONCE_BY_ADDRESS", 3)

    async def story(front: OpenFront) -> None:
        async def one(visitor: str) -> httpx.Response:
            async with visiting(front, visitor) as client:
                return await send(client, b"x")

        sent = [asyncio.create_task(one(visitor)) for visitor in ("anna", "bert", "carl")]
        await eventually(lambda: len(begun) == own_voice_routes.WORKERS, what="as many as there are workers")
        same, other = await asyncio.gather(one("anna"), one("dora"))
        assert (same.status_code, same.json()) == (429, {"error": ONE_AT_A_TIME})
        assert (other.status_code, other.json()) == (429, {"error": BUSY})
        assert [(await task).status_code for task in sent] == [200] * 3
        assert begun[2] - begun[0] > 0.25, "the third waited for a worker"
        assert (await one("dora")).status_code == 200

    told(engine, story)


# What goes wrong on our side.


def test_what_fails_on_the_server_is_told_as_that(
    engine: Engine,
    stepper: VoicesStepper,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(front: OpenFront) -> None:
        async with visiting(front, "anna") as anna:
            monkeypatch.setattr(stepper, "voice_pieces", lambda pcm: 1 / 0)
            answer = await send(anna, b"x")
            assert (answer.status_code, answer.json()) == (503, {"error": UNEXPECTED})
            assert "could not be made a voice" in caplog.text
            await asyncio.to_thread(engine.stop)
            monkeypatch.undo()
            answer = await send(anna, sound_file(speech()))
            assert (answer.status_code, answer.json()) == (503, {"error": CLOSING})
        assert not len(front.desk.own_voices)

    told(engine, story)


def test_a_server_with_a_login_asks_for_it(engine: Engine) -> None:
    async def story(app: Starlette, cookie: dict[str, str], desk: Any) -> None:
        app.auth, app.cookie_id, app.tokens = [("anna", "secret")], "x", {}  # as gradio's application has them
        answer = await post(app, Body(_never), {**cookie, **CONSENT})
        assert (answer.status, answer.error) == (403, "Log in first.")

    _alone(engine, story)


def test_the_served_page_has_the_routes() -> None:
    front = Path(own_voice_routes.__file__).with_name("front.py").read_text()
    assert "*own_voice_routes(desk, doors)" in front
