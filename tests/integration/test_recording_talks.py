"""A talk is recorded only where its visitor asked for it, from then on, and for the visitor alone."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from support.call import eventually
from support.front import OpenFront
from support.recording import SPEED, TalkativeStepper, engine_frames, numbered, recording, sound_of, stopped, told
from support.voice_visitor import visiting

from personaplex_app.audio import FRAME_SAMPLES
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.talk_queues import HEARD_FRAMES, SPOKEN_FRAMES
from personaplex_app.records.captions import SYNTHETIC, YOU_SPEAK
from personaplex_app.records.recording import FRAME_BYTES
from personaplex_app.web.recorder import NO_COOKIE, OVER, WILL_BEGIN

HOSTILE = ("..%2F..%2Fetc%2Fpasswd", "x/..%2Fy", "a" * 5000, "%00", "%F0%9F%98%80", "", ".wav", "x.wav.wav", "x.exe")


@pytest.fixture
def stepper() -> TalkativeStepper:
    return TalkativeStepper()


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
        assert talk["xray"] is None, "too short to say anything of"

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
            begun = await recording(anna, least=5.5)
            await stopped(anna)
        async with visiting(front, "anna") as client:
            assert YOU_SPEAK in (await client.get(f"/recordings/{begun['id']}.vtt")).text
            xray = (await client.get(f"/recordings/{begun['id']}.json")).json()["xray"]
            assert xray["figures"]["you"]["talk_seconds"] > 1 and len(xray["segments"]["you"]) >= 1

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
            for client in (bert, nobody):
                assert (await client.get("/recordings")).json()["recordings"] == []
                for asked in (*[f"{name}.{kind}" for kind in ("wav", "srt", "vtt", "json")], name, "0" * 24 + ".wav"):
                    answer = await client.get(f"/recordings/{asked}")
                    assert answer.status_code == 404
                    sentences.add(answer.json()["error"])
                answer = await client.delete(f"/recordings/{name}")
                assert answer.status_code == 404
                sentences.add(answer.json()["error"])
            for asked in HOSTILE:
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
            await eventually(lambda: len(program.heard) > 3, what="the talk goes on")
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
