"""Two voices talk by the socket: how they talked is told right before the end, and the persona that hears itself is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.call import eventually, play_out
from support.front import Caller, OpenFront, open_front
from support.two_voices import BACKCHANNELS, LOW, SENTENCES, hiss, lay, leaked, monologue, samples, say

from personaplex_app.audio import FRAME_SAMPLES, Pcm, silence
from personaplex_app.engine.echo import EchoStep, EchoStepper
from personaplex_app.engine.echo_guard import HEADPHONES
from personaplex_app.engine.facade import Engine

FAST = 3.0  # times as fast as time


class Speaker(EchoStepper):
    """A persona that says a track, whatever it hears."""

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.track = silence(0)

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        return {slot: EchoStep(frame(self.track, self.counts[slot] - 1), self._count(slot)) for slot in heard}


def frame(track: Pcm, number: int) -> Pcm:
    """A frame of it, silent after its end."""
    found = track[number * FRAME_SAMPLES : (number + 1) * FRAME_SAMPLES]
    return np.pad(found, (0, FRAME_SAMPLES - len(found)))


@pytest.fixture
def stepper() -> Speaker:
    return Speaker()


async def stepped(front: OpenFront, frames: int) -> None:
    """Waits until the only talk has come so far."""

    def far() -> bool:
        return any(talk.session and talk.session.counters.stepped >= frames for talk in front.desk._talks.values())

    await eventually(far, 60, f"{frames} frames")


async def stopped(caller: Caller) -> tuple[dict[str, Any], list[str]]:
    """Ends the talk; the X-ray, and the last two types that were told."""
    await caller.mute()
    await caller.say("stop")
    found = await caller.next("xray")
    await caller.next("ended")
    return found, [message["type"] for message in caller.told[-2:]]


def test_how_two_talked_is_told_before_the_end(engine: Engine, stepper: Speaker) -> None:
    asked, answer = say(SENTENCES[1], LOW), say(SENTENCES[9])
    heard, stepper.track = silence(samples(20)), silence(samples(20))
    at = lay(heard, samples(1), asked) + samples(0.8)
    end = lay(stepper.track, at, answer)
    lay(heard, at + samples(1.0), say(BACKCHANNELS[1], LOW))
    again = lay(heard, end + samples(1.0), asked) + samples(1.6)
    frames = (lay(stepper.track, again, answer) + samples(1.0)) // FRAME_SAMPLES
    heard += hiss(0, 20, -60)

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            await caller.talk(seed=1)
            caller.speak(lambda number: frame(heard, number), FAST)
            await stepped(front, frames)
            found, last = await stopped(caller)
            assert last == ["xray", "ended"]
            you, persona = found["figures"]["you"], found["figures"]["persona"]
            assert abs(found["seconds"] - frames * 0.08) < 2
            assert (you["turns"], persona["turns"], you["backchannels"]) == (2, 2, 1)
            assert (you["interruptions"], persona["interruptions"]) == (0, 0)
            gaps = persona["gaps"]
            assert gaps["count"] == 2
            quiet = silent_start(asked[::-1]) + silent_start(answer)
            assert abs(gaps["longest_seconds"] - 1.6 - quiet) < 0.4
            assert abs(gaps["median_seconds"] - 1.2 - quiet) < 0.4
            assert abs(persona["loudness_dbfs"] - you["loudness_dbfs"]) < 4
            assert 0.35 < you["talk_share"] < 0.65

    play_out(story)


def silent_start(sound: Pcm) -> float:
    """Seconds until it is loud."""
    return float(np.argmax(np.abs(sound) > 0.02)) / 24_000


def test_a_persona_that_hears_itself_is_told_and_a_resumed_talk_is_one(engine: Engine, stepper: Speaker) -> None:
    stepper.track = monologue(3, 40)
    heard = leaked(1, stepper.track, 300, -15) + hiss(1, 40, -60)

    async def story() -> None:
        async with open_front(engine) as front:
            async with front.caller("anna") as caller:
                view = await caller.talk(seed=1)
                caller.speak(lambda number: frame(heard, number), FAST)
                told = await caller.next("echo", 60)
                assert (told["number"], told["action"], told["sentence"]) == (0, "began", HEADPHONES)
                assert abs(told["lag_ms"] - 300) <= 40 and abs(told["level_db"] + 15) <= 4
                before = engine_frames(front)
                await caller.lose()
            async with front.caller("anna") as caller:
                await caller.say("resume", grant=view["grant"], path="socket")
                await caller.come_in()
                assert [one["number"] for one in caller.told if one["type"] == "echo"] == [0]  # for whoever comes back
                caller.speak(lambda number: frame(heard, number), FAST)
                await stepped(front, before + 30)
                talk = next(iter(front.desk._talks.values()))
                talk.count()
                found, _ = await stopped(caller)
                assert found["seconds"] >= (before + 30) * 0.08
                assert [mark["action"] for mark in found["marks"] if mark["kind"] == "echo"] == ["began"]
                page = front.desk.metrics.render()[0].decode()
                assert 'personaplex_echo_total{event="leaks"} 1.0' in page
                assert not [message for message in caller.told if message["type"] == "guard"]

    play_out(story)


def engine_frames(front: OpenFront) -> int:
    return next(talk.session.counters.stepped for talk in front.desk._talks.values() if talk.session)


def test_a_short_talk_has_no_xray_and_one_that_fails_has_one(engine: Engine, stepper: Speaker) -> None:
    stepper.track = monologue(3, 10)

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            for frames, kinds in ((10, []), (70, ["xray"])):
                await caller.talk(seed=1)
                caller.speak(lambda number: silence(), FAST)
                await stepped(front, frames)
                front.desk.fail(next(iter(front.desk._talks.values())), "It broke.")
                assert (await caller.next("ended"))["code"] == "fault"
                await caller.mute()
                assert [message["type"] for message in caller.told if message["type"] == "xray"] == kinds

    play_out(story)
