"""A talk is recorded only where its visitor asked for it, for the visitor alone, and is gone once it is deleted."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import soundfile
from support.call import eventually, play_out
from support.engine import ProbeStepper, frame_of
from support.front import Caller, Message, OpenFront, open_front
from support.voice_visitor import visiting

from personaplex_app.audio import FRAME_SAMPLES, Pcm
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.session import HEARD_FRAMES, SPOKEN_FRAMES
from personaplex_app.records.captions import SYNTHETIC, YOU_SPEAK
from personaplex_app.records.recording import FRAME_BYTES, FULL
from personaplex_app.web.recorder import DELETED, NO_COOKIE, OVER, WILL_BEGIN
from personaplex_app.web.recordings import MOST_OF_ONE, NO_ROOM, NONE_HERE, Recordings

SPEED = 8.0
WORDS = {3: b" Good", 5: b" day.", 30: b" <b>Bye.</b>"}  # by frame
Story = Callable[[OpenFront], Any]


class TalkativeStepper(ProbeStepper):
    """Answers each frame with its negative, says a few words, and watches which frames are still held by anybody."""

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.has_words = True
        self.watched: list[weakref.ref[Any]] = []

    def text(self, token: int) -> bytes:
        return WORDS.get(token, b"")

    def step(self, heard: Any) -> Any:
        steps = super().step({slot: -pcm for slot, pcm in heard.items()})
        self.watched += [weakref.ref(pcm) for pcm in (*heard.values(), *(step.pcm for step in steps.values()))]
        return steps

    @property
    def held(self) -> int:
        gc.collect()
        return sum(one() is not None for one in self.watched)


@pytest.fixture
def stepper() -> TalkativeStepper:
    return TalkativeStepper()


def told(engine: Engine, story: Story, **options: Any) -> None:
    async def run() -> None:
        async with open_front(engine, **options) as front:
            await story(front)

    play_out(run)


def numbered(number: int) -> Pcm:
    """A microphone whose frames can be told apart."""
    return frame_of((number + 1) / 4000)


async def recording(caller: Caller, on: bool = True, least: float = 0.0) -> Message:
    return await caller.next("recording", 10, lambda one: one["on"] is on and one["seconds"] >= least)


async def stopped(caller: Caller) -> Message:
    """The last word on the recording, once the talk is over."""
    await caller.say("stop")
    await caller.next("ended")
    return [one for one in caller.told if one["type"] == "recording"][-1]


async def sound_of(front: OpenFront, visitor: str, name: str) -> Any:
    """int16 [frames, 2]: the first sample of each frame, left and right."""
    async with visiting(front, visitor) as client:
        answer = await client.get(f"/recordings/{name}.wav")
    assert answer.status_code == 200 and len(answer.content) == int(answer.headers["content-length"])
    with soundfile.SoundFile(io.BytesIO(answer.content)) as file:
        assert SYNTHETIC in file.comment
        sound = file.read(dtype="int16", always_2d=True)
    assert len(sound) % FRAME_SAMPLES == 0
    return sound[::FRAME_SAMPLES]


# From the consent on.


def test_nothing_is_kept_before_the_consent_and_the_next_frame_is_the_first(
    engine: Engine, stepper: TalkativeStepper
) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk(seed=0)
            anna.speak(numbered, SPEED)
            await eventually(lambda: len(stepper.watched) > 60, what="frames went through")
            assert stepper.held <= 2 * (HEARD_FRAMES + SPOKEN_FRAMES + 2), "of 60 only those on their way"
            assert front.desk.recordings.room.bytes == 0 and not len(front.desk.recordings)
            assert not [one for one in anna.told if one["type"] == "recording"]
            before = engine_frames(front)
            await anna.say("record", on=True)
            begun = await recording(anna, least=1.0)
            assert begun["start"] >= before * 0.08 and begun["expires_seconds"] is None
            await anna.say("record", on=False)
            ended = await recording(anna, on=False)
            assert ended["id"] == begun["id"] and ended["sentence"] == OVER and ended["expires_seconds"] == 3600
            await asyncio.sleep(0.1)
            assert front.desk.recordings.find("anna", ended["id"]).sound.seconds == ended["seconds"]
        sound = await sound_of(front, "anna", ended["id"])
        heard = sound[:, 0][sound[:, 0] != 0]
        assert (np.diff(heard) > 0).all() and len(sound) * 0.08 == pytest.approx(ended["seconds"])
        assert (sound[:, 1] == -sound[:, 0]).all(), "what was spoken stands beside what was heard"

    told(engine, story)


def engine_frames(front: OpenFront) -> int:
    (talk,) = front.desk._talks.values()
    assert talk.session is not None
    return talk.session.counters.stepped


def test_who_consents_before_the_talk_has_it_from_the_first_frame_on(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.ask(seed=0)
            await anna.next("admitted")
            await anna.say("record", on=True)
            assert (await recording(anna, on=False))["sentence"] == WILL_BEGIN
            await anna.say("sound")
            await anna.next("talk", fits=lambda one: one["state"] == "talking")
            anna.speak(numbered, SPEED)
            begun = await recording(anna, least=3.0)
            last = await stopped(anna)
            assert begun["start"] == 0 and last["id"] == begun["id"] and not last["on"]
        async with visiting(front, "anna") as client:
            srt = (await client.get(f"/recordings/{begun['id']}.srt")).text
            assert "00:00:00,240 --> 00:00:01," in srt and "Good day." in srt and SYNTHETIC in srt
            vtt = (await client.get(f"/recordings/{begun['id']}.vtt")).text
            assert "<v Persona>&lt;b&gt;Bye.&lt;/b&gt;" in vtt and vtt.startswith("WEBVTT")
            talk = (await client.get(f"/recordings/{begun['id']}.json")).json()
        assert talk["synthetic"] is True and talk["version"] == 1 and talk["model"]["name"] == "echo"
        assert talk["choices"]["seed"] == 0 and talk["choices"]["voice"] == "none"
        assert [turn["text"] for turn in talk["turns"] if turn["who"] == "persona"] == ["Good day.", "<b>Bye.</b>"]
        assert talk["words"][:2] == [{"word": "Good", "start": 0.24}, {"word": "day.", "start": 0.4}]
        assert talk["applied"][0]["start"] == 0 and talk["applied"][0]["sampling"]["audio_top_k"] == 250
        assert talk["recording"]["seconds"] == last["seconds"]

    told(engine, story)


def test_sampling_that_changes_stands_in_the_json_at_its_time(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk(seed=0)
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            begun = await recording(anna, least=1.0)
            await anna.say("set", choices={"text_top_k": 7})
            await anna.next("talk", fits=lambda one: "text top-k 7" in one["applied"])
            await recording(anna, least=2.0)
            await stopped(anna)
        async with visiting(front, "anna") as client:
            applied = (await client.get(f"/recordings/{begun['id']}.json")).json()["applied"]
        assert [one["sampling"]["text_top_k"] for one in applied] == [25, 7]
        assert applied[0]["start"] == 0 and 0 < applied[1]["start"] < 3

    told(engine, story)


def test_when_the_visitor_speaks_stands_in_the_captions(engine: Engine) -> None:
    noise = np.random.default_rng(1).standard_normal(FRAME_SAMPLES).astype(np.float32) / 10

    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk(seed=0)
            (talk,) = front.desk._talks.values()
            talk.looking.turns._gates["you"]._detector = None  # the level decides: noise is speech here
            await anna.say("record", on=True)
            anna.speak(lambda number: noise if number % 50 > 30 else noise / 1e4, SPEED)
            begun = await recording(anna, least=4.5)
            await stopped(anna)
        async with visiting(front, "anna") as client:
            assert YOU_SPEAK in (await client.get(f"/recordings/{begun['id']}.vtt")).text

    told(engine, story)


# Whose it is.


def test_it_is_its_owner_s_alone_and_others_are_told_the_same_as_of_none(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk()
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            name = (await recording(anna, least=0.5))["id"]
            await stopped(anna)
        async with visiting(front, "anna") as mine, visiting(front, "bert") as bert, visiting(front, None) as nobody:
            sentences = set()
            hostile = (
                "..%2F..%2Fetc%2Fpasswd",
                "x/..%2Fy",
                "a" * 5000,
                "%00",
                "%F0%9F%98%80",
                "",
                ".wav",
                "x.wav.wav",
                "x.exe",
            )
            for client in (bert, nobody):
                assert (await client.get("/recordings")).json()["recordings"] == []
                for asked in (*[f"{name}.{kind}" for kind in ("wav", "srt", "vtt", "json")], name, "0" * 24 + ".wav"):
                    answer = await client.get(f"/recordings/{asked}")
                    assert answer.status_code == 404
                    sentences.add(answer.json()["error"])
                answer = await client.delete(f"/recordings/{name}")
                assert answer.status_code == 404
                sentences.add(answer.json()["error"])
            for asked in hostile:
                answer = await mine.get(f"/recordings/{asked}")
                assert answer.status_code == 404, asked
                sentences.add(answer.json()["error"])
            assert len(sentences) == 1
            (listed,) = (await mine.get("/recordings")).json()["recordings"]
            assert listed["id"] == name and not listed["on"] and listed["bytes"] > FRAME_BYTES
            assert 3500 < listed["expires_seconds"] <= 3600
            answer = await mine.get(f"/recordings/{name}.exe")
            assert answer.status_code == 404
            answer = await mine.get(f"/recordings/{name}.json")
            assert (
                answer.headers["cache-control"] == "no-store" and "attachment" in answer.headers["content-disposition"]
            )

    told(engine, story)


def test_another_origin_and_other_methods_are_refused_in_words(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with visiting(front, "anna", origin="https://evil.example") as page, visiting(front, "anna") as client:
            for path in ("/recordings", "/recordings/x.wav"):
                assert (await page.get(path)).status_code == 403
                for method in ("POST", "PUT", "PATCH", "OPTIONS"):
                    answer = await client.request(method, path)
                    assert answer.status_code == 405 and answer.json()["error"]

    told(engine, story)


def test_a_program_without_a_cookie_owns_nothing(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller() as program:
            await program.talk()
            await program.say("record", on=True)
            refused = await program.next("refused")
            assert (refused["code"], refused["sentence"]) == ("no_cookie", NO_COOKIE)
            program.speak(numbered, SPEED)
            await program.next("talk", fits=lambda one: one["state"] == "talking")
        assert not len(front.desk.recordings)

    told(engine, story)


@pytest.mark.parametrize("raw", ['{"type":"record"}', '{"type":"record","on":1}', '{"type":"record","on":"yes"}'])
def test_a_consent_is_true_or_false(engine: Engine, raw: str) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk()
            await anna.send(raw)
            assert (await anna.next("refused"))["code"] == "bad_message"
            assert not len(front.desk.recordings)

    told(engine, story)


def test_without_a_talk_there_is_nothing_to_record(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.say("record", on=True)
            assert (await anna.next("refused"))["code"] == "bad_message"

    told(engine, story)


# How long.


def test_deleting_it_ends_it_in_the_midst_of_the_talk_and_frees_its_room(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna, visiting(front, "anna") as client:
            await anna.talk()
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            name = (await recording(anna, least=1.0))["id"]
            assert front.desk.recordings.room.bytes > 0
            assert (await client.delete(f"/recordings/{name}")).json() == {}
            assert front.desk.recordings.room.bytes == 0
            gone = await recording(anna, on=False)
            assert (gone["sentence"], gone["seconds"]) == (DELETED, 0)
            before = engine_frames(front)
            await eventually(lambda: engine_frames(front) > before + 5, what="the talk goes on")
            assert front.desk.recordings.room.bytes == 0 and not len(front.desk.recordings)
            assert (await client.get(f"/recordings/{name}.wav")).status_code == 404
            assert (await client.delete(f"/recordings/{name}")).status_code == 404
            await anna.say("record", on=True)
            assert (await recording(anna, least=0.3))["id"] != name, "a new consent is a new recording"

    told(engine, story)


def test_after_its_time_it_is_gone_from_memory_though_nobody_asks(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("personaplex_app.web.recorder.SWEEP_AFTER_SECONDS", 0.05)

    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk()
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            await recording(anna, least=0.5)
            await stopped(anna)
            assert front.desk.recordings.room.bytes > 0
            await eventually(lambda: front.desk.recordings.room.bytes == 0, what="dropped")
            assert not len(front.desk.recordings)

    told(engine, story, recordings=Recordings(kept_seconds=0.3))


def test_a_talk_that_comes_back_goes_on_in_the_same_recording(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as first:
            await first.talk(seed=0)
            first.speak(numbered, SPEED)
            await first.say("record", on=True)
            begun = await recording(first, least=1.0)
            grant = [one["grant"] for one in first.told if one["type"] == "talk"][-1]
            await first.lose()
        await eventually(lambda: front.desk.recordings.find("anna", begun["id"]).until, what="the loss is noticed")
        async with front.caller("anna") as second:
            await second.say("resume", grant=grant)
            await second.come_in()
            goes_on = await recording(second)
            assert goes_on["id"] == begun["id"] and goes_on["seconds"] >= 1.0 and goes_on["expires_seconds"] is None
            second.speak(lambda number: numbered(number + 1000), SPEED)
            await recording(second, least=goes_on["seconds"] + 1.0)
            await stopped(second)
        heard = (await sound_of(front, "anna", begun["id"]))[:, 0]
        assert heard.max() > 8000 and (0 < heard[heard != 0]).all() and (heard < 4000).sum() > 10

    told(engine, story)


def test_who_takes_up_another_s_talk_records_nothing(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as first:
            await first.talk()
            first.speak(numbered, SPEED)
            await first.say("record", on=True)
            begun = await recording(first, least=0.5)
            grant = [one["grant"] for one in first.told if one["type"] == "talk"][-1]
            await first.lose()
        async with front.caller("bert") as bert:
            await bert.say("resume", grant=grant)
            await bert.come_in()
            seconds = front.desk.recordings.find("anna", begun["id"]).sound.seconds
            before = engine_frames(front)
            bert.speak(numbered, SPEED)
            await eventually(lambda: engine_frames(front) > before + 8, what="the talk goes on")
            assert front.desk.recordings.find("anna", begun["id"]).sound.seconds == seconds
            assert not [one for one in bert.told if one["type"] == "recording"]

    told(engine, story)


def test_a_talk_that_is_started_over_has_a_recording_of_its_own_while_the_consent_holds(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk(seed=0)
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            first = await recording(anna, least=0.5)
            await anna.say("start_over", choices={"seed": 0})
            await anna.next("started_over")
            second = await anna.next("recording", fits=lambda one: one["on"] and one["id"] != first["id"])
            assert second["start"] == 0
            assert not front.desk.recordings.find("anna", first["id"]).on
            await recording(anna, least=0.5)
            await anna.say("record", on=False)
            await recording(anna, on=False)
            await anna.say("start_over", choices={"seed": 0})
            await anna.next("started_over")
            before = front.desk.recordings.room.bytes
            await eventually(lambda: engine_frames(front) > 5, what="the third talk runs")
            assert front.desk.recordings.room.bytes == before and len(front.desk.recordings) == 2

    told(engine, story)


def test_while_somebody_loads_it_it_can_be_deleted(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk()
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            name = (await recording(anna, least=3.0))["id"]
            await stopped(anna)
        async with visiting(front, "anna") as client, client.stream("GET", f"/recordings/{name}.wav") as answer:
            pieces = answer.aiter_bytes()
            loaded = len(await anext(pieces))
            front.desk.recordings.delete("anna", name)
            assert front.desk.recordings.room.bytes == 0
            loaded += sum([len(piece) async for piece in pieces])
            assert loaded == int(answer.headers["content-length"])

    told(engine, story)


# How much.


def test_where_there_is_no_room_it_is_said_and_the_talk_goes_on(engine: Engine) -> None:
    async def refused(most_bytes: int, code: str, sentence: str) -> None:
        async with (
            open_front(engine, recordings=Recordings(most_bytes)) as front,
            front.caller("anna") as anna,
            visiting(front, "anna") as client,
        ):
            assert (await client.get("/recordings")).json()["possible"] is bool(most_bytes)
            await anna.talk()
            await anna.say("record", on=True)
            told = await anna.next("refused")
            assert (told["code"], told["sentence"]) == (code, sentence)
            anna.speak(numbered, SPEED)
            await eventually(lambda: len(anna.heard) > 3, what="the talk goes on")
            assert not len(front.desk.recordings)
            await stopped_without(anna)

    async def stopped_without(anna: Caller) -> None:
        await anna.say("stop")
        await anna.next("ended")

    async def story() -> None:
        await refused(0, "no_recordings", NONE_HERE)
        await refused(FRAME_BYTES * 700, "recordings_full", NO_ROOM)

    play_out(story)


def test_one_that_fills_the_room_ends_in_words_and_is_kept(engine: Engine) -> None:
    recordings = Recordings(FRAME_BYTES * 760)

    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk()
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            await recording(anna, least=0.3)
            recordings.room.take(recordings.room.left_bytes - 5 * FRAME_BYTES)  # as another's recording does
            ended = await recording(anna, on=False)
            assert ended["sentence"] == FULL and ended["seconds"] > 0.3 and ended["expires_seconds"] is None
            await anna.say("record", on=True)
            assert (await anna.next("refused"))["sentence"] == NO_ROOM
            last = await stopped(anna)
            assert last["sentence"] == FULL and last["expires_seconds"] == 3600
        assert len(await sound_of(front, "anna", ended["id"])) * 0.08 == pytest.approx(ended["seconds"])

    told(engine, story, recordings=recordings)


def test_a_visitor_has_so_many_at_once(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna, visiting(front, "anna") as client:
            await anna.talk()
            anna.speak(numbered, SPEED)
            for _ in range(MOST_OF_ONE):
                await anna.say("record", on=True)
                one = await recording(anna, least=0.1)
                await anna.say("record", on=False)
                await recording(anna, on=False)
            await anna.say("record", on=True)
            assert "delete one first" in (await anna.next("refused"))["sentence"]
            assert (await client.delete(f"/recordings/{one['id']}")).status_code == 200
            await anna.say("record", on=True)
            await recording(anna, least=0.1)

    told(engine, story)


def test_one_that_never_had_a_frame_is_not_kept(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk()
            await anna.say("record", on=True)
            await recording(anna)
            await anna.say("record", on=False)
            await recording(anna, on=False)
            assert not len(front.desk.recordings)

    told(engine, story)


def test_half_a_letter_in_a_prompt_spoils_no_json(engine: Engine) -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.send('{"type":"ask","choices":{"prompt":"\\ud800 <b>"}}')
            await anna.come_in()
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            name = (await recording(anna, least=0.1))["id"]
        async with visiting(front, "anna") as client:
            answer = await client.get(f"/recordings/{name}.json")
            assert json.loads(answer.content)["choices"]["prompt"] == "\ud800 <b>"

    told(engine, story)
