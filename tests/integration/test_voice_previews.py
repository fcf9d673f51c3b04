"""Previews of voices over the real tick thread: made once, when there is time, in a slot that nobody wants."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from starlette.applications import Starlette
from support.call import eventually
from support.engine import CHOICES, ProbeStepper, Talker, is_talking, join_talking, pace
from support.hostile import hostile_names, no_files
from support.speaker import LOUD, VOICES, SpeakingStepper, WholePromptStepper

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import SAMPLE_RATE_HZ
from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.loan import TAKEN_BACK
from personaplex_app.engine.ports import Stepper
from personaplex_app.errors import NoCapacity
from personaplex_app.network import Network
from personaplex_app.preview_shelf import PreviewShelf
from personaplex_app.preview_sounds import BUSY, SEEDS
from personaplex_app.settings import EngineChoice
from personaplex_app.web import voice_previews
from personaplex_app.web.doors import Doors
from personaplex_app.web.visitors import Visitors
from personaplex_app.web.voice_previews import VoicePreviews, preview_routes

NOTE = "Noise."


@dataclass
class House:
    """The two routes over an engine that runs."""

    engine: Engine
    previews: VoicePreviews
    client: httpx.AsyncClient
    app: Starlette
    made: list[int] = field(default_factory=list)

    async def ask(self, voice: str, **headers: str) -> httpx.Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.get(f"/voices/preview/{voice}.wav", headers=sent)

    async def listed(self) -> dict[str, dict[str, object]]:
        answer = await self.client.get("/voices/previews")
        assert answer.status_code == 200
        return {voice["name"]: voice for voice in answer.json()["voices"]}


@contextlib.asynccontextmanager
async def open_house(stepper: Stepper, directory: Path | None = None) -> AsyncIterator[House]:
    with Engine(stepper) as engine:
        made: list[int] = []
        previews = VoicePreviews(engine, PreviewShelf(directory), SamplingSettings(), NOTE, lambda: made.append(1))
        doors = Doors(Visitors(), Network())
        app = Starlette(routes=preview_routes(previews, doors))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://house", timeout=20) as client:
            try:
                yield House(engine, previews, client, app, made)
            finally:
                await previews.close()


def sound_of(answer: httpx.Response) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    pcm, rate_hz = soundfile.read(io.BytesIO(answer.content), dtype="float32")
    assert rate_hz == SAMPLE_RATE_HZ and pcm.ndim == 1
    return pcm


async def talk(engine: Engine) -> Talker:
    return await asyncio.to_thread(join_talking, engine)


def test_voices_are_listed_by_style_and_gender_each_with_where_its_preview_is() -> None:
    async def look() -> None:
        async with open_house(SpeakingStepper()) as house:
            listed = await house.listed()
            kinds = [(voice["style"], voice["gender"]) for voice in listed.values()]
            assert kinds == [
                ("natural", "female"),
                ("natural", "male"),
                ("varied", "female"),
                ("varied", "male"),
                ("own", ""),
            ]
            assert list(listed) == list(VOICES)
            assert listed["NATF0"].keys() == {"name", "style", "gender", "preview", "note"}
            assert (listed["NATF0"]["preview"], listed["NATF0"]["note"]) == ("voices/preview/NATF0.wav", NOTE)
        async with open_house(ProbeStepper()) as house:
            assert await house.listed() == {}

    asyncio.run(look())


def test_a_preview_is_made_once_in_a_free_slot_and_leaves_nothing_behind(tmp_path: Path) -> None:
    stepper = SpeakingStepper()

    async def listen() -> None:
        async with open_house(stepper, tmp_path) as house:
            first, second = await asyncio.gather(house.ask("NATF0"), house.ask("NATF0"))
            pcm = sound_of(first)
            assert first.content == second.content == (await house.ask("NATF0")).content
            assert house.made == [1] and stepper.talks("NATF0") == 1
            assert len(pcm) == 4 * SAMPLE_RATE_HZ and np.abs(pcm).max() == pytest.approx(LOUD, abs=0.001)
            assert first.headers["content-type"] == "audio/wav" and first.headers["cache-control"].startswith("private")
            same = await house.ask("NATF0", if_none_match=first.headers["etag"])
            assert same.status_code == 304 and not same.content
            assert house.engine.status.free == 1 and not stepper.sampling and not stepper.speaking
        assert stepper.threads == {"tick"} and stepper.kept == [], "its prompt takes no visitor's place"
        assert {opening.known_as for opening in stepper.primed} == {None}
        async with open_house(SpeakingStepper(), tmp_path) as later:
            assert (await later.ask("NATF0")).content == first.content and later.made == []

    asyncio.run(listen())


def test_one_is_made_at_a_time_however_many_ask() -> None:
    stepper = SpeakingStepper(slots=3)

    async def listen() -> None:
        async with open_house(stepper) as house:
            answers = await asyncio.gather(*(house.ask(voice) for voice in VOICES for _ in range(3)))
            assert {answer.status_code for answer in answers} == {200} and len(house.made) == len(VOICES)

    asyncio.run(listen())
    assert stepper.most == 1 and stepper.primed[0].choices.prompt.endswith("your name is Kate.")


def test_while_every_line_is_taken_it_is_refused_in_words_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_previews, "PATIENCE_SECONDS", 0.3)

    async def listen() -> None:
        async with open_house(SpeakingStepper()) as house:
            talker = await talk(house.engine)
            began = time.monotonic()
            refused = await house.ask("NATF0")
            assert time.monotonic() - began < 2
            assert refused.status_code == 503 and int(refused.headers["retry-after"]) > 0
            assert "one line only" in refused.json()["error"] and refused.headers["cache-control"] == "no-store"
            house.engine.leave(talker.session)
            sound_of(await house.ask("NATF0"))

    asyncio.run(listen())


def test_a_prompt_that_is_read_in_one_go_is_not_read_beside_a_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_previews, "PATIENCE_SECONDS", 0.1)
    stepper = WholePromptStepper(slots=2)

    async def listen() -> None:
        async with open_house(stepper) as house:
            talker = await talk(house.engine)
            refused = await house.ask("NATF0")
            assert refused.status_code == 503 and refused.json()["error"] == BUSY
            assert house.engine.status.free == 1 and stepper.talks("NATF0") == 0
            house.engine.leave(talker.session)
            sound_of(await house.ask("NATF0"))

    asyncio.run(listen())


def test_beside_a_talk_it_is_made_between_the_ticks_and_costs_no_frame() -> None:
    stepper = SpeakingStepper(slots=2)
    stepper.step_seconds = 0.01

    async def listen() -> None:
        async with open_house(stepper) as house:
            talker = await talk(house.engine)
            asked = asyncio.create_task(house.ask("NATF0"))
            await asyncio.to_thread(pace, 15, lambda index: talker.say(index + 1.0), [talker])
            sound_of(await asked)
            counters = talker.session.counters
            assert (counters.heard_dropped, counters.silence_filled, counters.missed) == (0, 0, 0)
            assert [value for value in talker.values if value][:15] == [index + 1.0 for index in range(15)]

    asyncio.run(listen())


def test_whoever_comes_has_the_slot_at_once_and_the_preview_begins_again_later() -> None:
    stepper = SpeakingStepper()
    stepper.step_seconds = 0.01

    async def listen() -> None:
        async with open_house(stepper) as house:
            asked = asyncio.create_task(house.ask("NATF0"))
            await eventually(lambda: stepper.speaking, what="it speaks")
            status = house.engine.status
            assert (status.free, status.talking) == (1, 0), "what is lent is free for those who come"
            house.engine.check_capacity()
            began = time.monotonic()
            session = await asyncio.to_thread(house.engine.join, CHOICES)
            assert time.monotonic() - began < 0.3
            await eventually(lambda: is_talking(session), 1.0, "talking")
            assert stepper.speaking == {} and house.engine.status.free == 0
            Talker(house.engine, session).say(0.5)
            house.engine.leave(session)
            sound_of(await asked)
            assert stepper.talks("NATF0") == 2 and house.made == [1]

    asyncio.run(listen())


def test_whoever_comes_back_has_it_too() -> None:
    stepper = SpeakingStepper()
    stepper.step_seconds = 0.01

    async def listen() -> None:
        async with open_house(stepper) as house:
            talker = await talk(house.engine)
            house.engine.leave(talker.session, "lost", park=True)
            await eventually(lambda: house.engine.status.free, what="parked")
            asked = asyncio.create_task(house.ask("NATF0"))
            await eventually(lambda: stepper.speaking, what="it speaks")
            session = await asyncio.to_thread(house.engine.resume, talker.session.grant)
            await eventually(lambda: is_talking(session), 1.0, "talking again")
            house.engine.leave(session)
            sound_of(await asked)

    asyncio.run(listen())


@pytest.mark.parametrize("voice", ["NATF9", "none", "own-0123abcd", "TINY00"])
def test_a_voice_that_is_not_there_is_not_found(voice: str) -> None:
    async def ask() -> None:
        async with open_house(SpeakingStepper()) as house:
            answer = await house.ask(voice)
            assert (answer.status_code, answer.json()) == (404, {"error": "This checkpoint has no such voice."})

    asyncio.run(ask())


def test_five_hundred_hostile_names_are_not_found_and_touch_no_file(tmp_path: Path) -> None:
    stepper = SpeakingStepper()

    async def ask() -> None:
        async with open_house(stepper, tmp_path) as house:
            with no_files() as attempts:
                for name in hostile_names():
                    assert await _status_of(house.app, f"/voices/preview/{name}.wav") == 404, name
            assert not attempts and stepper.primed == []

    asyncio.run(ask())


async def _status_of(app: Starlette, path: str) -> int:
    """Of a path as it is after the server has decoded it; no client tidies it up."""
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "app": app}
    await app({**scope, "root_path": "", "client": ("127.0.0.1", 1), "server": ("house", 80)}, receive, send)
    status: int = told[0]["status"]
    return status


def test_a_voice_that_says_nothing_is_tried_with_other_numbers_and_then_told(caplog: pytest.LogCaptureFixture) -> None:
    stepper = SpeakingStepper()
    stepper.silent = {"NATF0": 2, "NATM1": 3}

    async def listen() -> None:
        async with open_house(stepper) as house:
            sound_of(await house.ask("NATF0"))
            assert [opening.seed for opening in stepper.primed] == list(SEEDS)
            refused = await house.ask("NATM1")
            assert refused.status_code == 503 and "said nothing" in refused.json()["error"]
            assert (await house.ask("NATM1")).json() == refused.json() and stepper.talks("NATM1") == len(SEEDS)
            listed = await house.listed()
            assert listed["NATM1"]["preview"] is None and listed["NATM1"]["note"] == refused.json()["error"]
            assert listed["NATF0"]["preview"]

    asyncio.run(listen())
    assert caplog.text.count("there is no preview of NATM1") == 1


def test_a_voice_that_cannot_be_used_is_told_and_the_others_are_made() -> None:
    stepper = SpeakingStepper()
    stepper.broken = {"NATF0"}

    async def listen() -> None:
        async with open_house(stepper) as house:
            refused = await house.ask("NATF0")
            assert refused.status_code == 422 and "is not a PersonaPlex voice file" in refused.json()["error"]
            assert (await house.listed())["NATF0"]["preview"] is None
            sound_of(await house.ask("NATM1"))

    asyncio.run(listen())


def _unhealthy(stepper: SpeakingStepper) -> None:
    stepper.unhealthy = {0}


def _failing(stepper: SpeakingStepper) -> None:
    stepper.fails = {"step"}


@pytest.mark.parametrize(("spoil", "words"), [(_unhealthy, "stopped being finite"), (_failing, "The engine failed")])
def test_a_model_that_fails_is_told_and_tried_again_when_asked_again(
    spoil: Callable[[SpeakingStepper], None], words: str
) -> None:
    stepper = SpeakingStepper()
    spoil(stepper)

    async def listen() -> None:
        async with open_house(stepper) as house:
            refused = await house.ask("NATF0")
            assert refused.status_code == 503 and words in refused.json()["error"]
            assert house.engine.status.free == 1 and not stepper.speaking
            stepper.unhealthy, stepper.fails = set(), set()
            sound_of(await house.ask("NATF0"))

    asyncio.run(listen())


def test_a_slot_that_cannot_be_wiped_is_the_engine_s_end() -> None:
    stepper = SpeakingStepper()
    stepper.fails = {"release"}

    async def listen() -> None:
        async with open_house(stepper) as house:
            await house.ask("NATF0")
            await eventually(lambda: house.engine.status.failed, what="the engine is dead")
            assert (await house.ask("NATM1")).status_code == 503

    asyncio.run(listen())


def test_where_a_frame_takes_longer_than_it_lasts_none_is_made() -> None:
    stepper = SpeakingStepper()

    async def ask() -> None:
        async with open_house(stepper) as house:
            house.engine._loop.step_seconds = 0.081
            refused = await house.ask("NATF0")
            assert refused.status_code == 503 and refused.json()["error"] == voice_previews.SLOW
            assert not stepper.primed

    asyncio.run(ask())


def test_who_waits_too_long_is_told_to_come_back_and_finds_it_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_previews, "ANSWER_SECONDS", 0.1)
    stepper = SpeakingStepper()
    stepper.step_seconds = 0.01

    async def listen() -> None:
        async with open_house(stepper) as house:
            refused = await house.ask("NATF0")
            assert refused.status_code == 503 and "still being made" in refused.json()["error"]
            await eventually(lambda: house.made, what="made all the same")
            sound_of(await house.ask("NATF0"))
            assert stepper.talks("NATF0") == 1

    asyncio.run(listen())


def test_what_nobody_asked_for_is_made_while_nobody_talks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_previews, "QUIET_SECONDS", 0.05)
    stepper = SpeakingStepper()
    stepper.broken, stepper.silent = {"NATM1"}, {"VARF2": 99}

    async def wait() -> None:
        async with open_house(stepper) as house:
            talker = await talk(house.engine)
            house.previews.start()
            await asyncio.sleep(0.3)
            assert not stepper.talks("NATF0"), "somebody talks"
            house.engine.leave(talker.session)
            await eventually(lambda: len(house.made) == 3, what="all that can be made are")
            assert [house.previews.voices()[at]["preview"] is None for at in range(5)] == [
                False,
                True,
                True,
                False,
                False,
            ]
            before = len(stepper.primed)
            sound_of(await house.ask("TINY0"))
            assert len(stepper.primed) == before

    asyncio.run(wait())


def test_the_server_s_end_leaves_no_slot_and_no_task_behind() -> None:
    stepper = SpeakingStepper()
    stepper.step_seconds = 0.01

    async def leave() -> None:
        async with open_house(stepper) as house:
            house.previews.start()
            asked = asyncio.create_task(house.previews.wav("NATF0"))
            await eventually(lambda: stepper.speaking, what="it speaks")
            await house.previews.close()
            with pytest.raises(asyncio.CancelledError):
                await asked
            await eventually(lambda: not stepper.speaking, what="the slot is wiped")
            assert house.engine.status.free == 1
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(leave())


@pytest.mark.parametrize("path", ["/voices/previews", "/voices/preview/NATF0.wav"])
def test_another_origin_is_turned_away(path: str) -> None:
    stepper = SpeakingStepper()

    async def ask() -> None:
        async with open_house(stepper) as house:
            answer = await house.client.get(path, headers={"origin": "https://elsewhere.example"})
            assert answer.status_code == 403 and "another origin" in answer.json()["error"]
            assert not stepper.primed

    asyncio.run(ask())


def test_a_loan_is_one_and_ends_once() -> None:
    with Engine(SpeakingStepper(slots=2)) as engine:

        def lend_twice() -> object:
            with engine.lend() as loan:
                yield
                with pytest.raises(NoCapacity), engine.lend():
                    pass
                loan.end()
                with pytest.raises(NoCapacity, match=TAKEN_BACK):
                    _ = loan.slot
            return engine.status.free

        assert engine.errand(lend_twice()).result(20) == 2


@pytest.mark.parametrize(("name", "voice"), [("demo", "NATM0"), ("mini", "TINY0")])
def test_the_miniatures_really_speak(
    name: str, voice: str, cache_outside_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("personaplex_app.web.voice_previews.ANSWER_SECONDS", 60.0)  # a busy machine takes its time
    stepper = build_stepper(EngineChoice(name, cache_outside_home, device="cpu"))
    assert len(stepper.identity) == 16

    async def listen() -> None:
        async with open_house(stepper) as house:
            pcm = sound_of(await house.ask(voice))
            assert 3 * SAMPLE_RATE_HZ <= len(pcm) <= 4 * SAMPLE_RATE_HZ
            assert 0.01 < float(np.sqrt(np.mean(np.square(pcm)))) < 0.11

    asyncio.run(listen())
