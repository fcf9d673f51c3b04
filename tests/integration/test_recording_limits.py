"""How long a recording goes on and is kept, and how much of all recordings together."""

from __future__ import annotations

import json

import pytest
from support.call import eventually, play_out
from support.front import Caller, OpenFront, open_front
from support.recording import SPEED, TalkativeStepper, engine_frames, numbered, recording, sound_of, stopped, told
from support.voice_visitor import visiting

from personaplex_app.engine.facade import Engine
from personaplex_app.records.recording import FRAME_BYTES, FULL
from personaplex_app.web.recorder import DELETED
from personaplex_app.web.recordings import MOST_OF_ONE, NO_ROOM, NONE_HERE, Recordings


@pytest.fixture
def stepper() -> TalkativeStepper:
    return TalkativeStepper()


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
        assert heard.max() > 8000 and (heard[heard != 0] > 0).all() and (heard < 4000).sum() > 10

    told(engine, story)


@pytest.mark.parametrize("on", [True, False])
def test_who_comes_back_may_say_anew_whether_it_is_recorded(engine: Engine, on: bool) -> None:
    recordings = Recordings(most_of_one=1)

    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as first:
            await first.talk(seed=0)
            first.speak(numbered, SPEED)
            await first.say("record", on=True)
            begun = await recording(first, least=0.5)
            grant = [one["grant"] for one in first.told if one["type"] == "talk"][-1]
            await first.lose()
        async with front.caller("anna") as second:
            await second.say("resume", grant=grant)
            await second.next("admitted")
            await second.say("record", on=on)
            await second.say("sound")
            assert (await recording(second, on))["id"] == begun["id"], "and is told so, maybe before it goes on"
            await eventually(lambda: [one for one in second.told if one.get("state") == "talking"])
            second.speak(numbered, SPEED)
            before = engine_frames(front)
            await eventually(lambda: engine_frames(front) > before + 10, what="the talk goes on")
            assert [one for one in second.told if one["type"] == "refused"] == []
            one = front.desk.recordings.find("anna", begun["id"])
            assert one.on is on and (one.sound.seconds > begun["seconds"] + 0.3) is on and len(recordings) == 1

    told(engine, story, recordings=recordings)


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
