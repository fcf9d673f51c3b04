"""What is left of a recording's talk, and of its visitor's clicks, once they are over: nothing but the recording."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from support.call import eventually, open_desk, play_out
from support.desk import Door, Voice, slot_free, talking_at
from support.engine import CHOICES
from support.front import OpenFront
from support.recording import SPEED, TalkativeStepper, numbered, recording, told
from support.voice_visitor import visiting

from personaplex_app.engine.facade import Engine
from personaplex_app.web.recorder import Recorder
from personaplex_app.web.recordings import Recordings


@pytest.mark.parametrize("how", ["stop", "lose"])
def test_who_leaves_while_joining_leaves_no_recording(how: str) -> None:
    stepper = Door()

    async def story(engine: Engine) -> None:
        async with open_desk(engine) as desk:
            stepper.door.clear()
            talk = desk.ask("anna", "somewhere", CHOICES)
            desk.recorder.consent(talk)
            entering = asyncio.create_task(desk.enter(talk, "webrtc"))
            await eventually(lambda: talk.entering, what="joining")
            getattr(desk, how)(talk)
            stepper.door.set()
            await entering
            await slot_free(desk)
            assert len(desk.recordings) == 0 and desk.recordings.of("anna") == []

    with Engine(stepper) as engine:
        play_out(lambda: story(engine))


def test_a_recording_that_was_cut_off_holds_its_words_and_not_who_listened() -> None:
    async def story(front: OpenFront) -> None:
        async with front.caller("anna") as anna:
            await anna.talk(seed=0)
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            name = (await recording(anna, least=3.0))["id"]
            (talk,) = front.desk._talks.values()
            assert talk.looking is not None
            listener, grant = weakref.ref(talk.looking.turns), talk.grant
            del talk
            await anna.lose()
        await eventually(lambda: front.desk.recordings.find("anna", name).until, what="the loss is noticed")
        await eventually(lambda: front.desk.engine.parked.count, what="parked")
        front.desk.engine.forget(grant)

        def gone() -> bool:
            gc.collect()
            return listener() is None

        await eventually(gone, what="the listener is gone")
        async with visiting(front, "anna") as client:
            kept = (await client.get(f"/recordings/{name}.json")).json()
        assert [one["word"] for one in kept["words"]][-1] == "<b>Bye.</b>" and kept["recording"]["seconds"] >= 3.0

    with Engine(TalkativeStepper()) as engine:
        told(engine, story)


def test_however_often_a_visitor_changes_its_mind_one_timer_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex_app.web.recorder.SWEEP_AFTER_SECONDS", 0.05)
    recordings = Recordings(kept_seconds=0.5)

    def timers() -> int:
        waiting = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        return sum(getattr(one._callback, "__func__", None) is Recorder._sweep for one in waiting)

    async def story(engine: Engine) -> None:
        async with open_desk(engine, recordings=recordings) as desk:
            talk = await talking_at(desk)
            async with Voice(desk, talk):
                for _ in range(3):
                    desk.recorder.consent(talk)
                    one = talk.recorded
                    assert one is not None
                    taken = asyncio.create_task(_take(desk, talk))
                    await eventually(lambda one=one: len(one.sound) > 1, what="frames")
                    taken.cancel()
                    for _ in range(50):
                        desk.recorder.withdraw(talk)
                    assert timers() == 1
                await eventually(lambda: not recordings._all, what="all of them are swept, one after another")
                assert recordings.room.bytes == 0 and timers() == 0

    async def _take(desk: object, talk: object) -> None:
        while True:
            talk.take_spoken()  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)

    with Engine(TalkativeStepper()) as engine:
        play_out(lambda: story(engine))
