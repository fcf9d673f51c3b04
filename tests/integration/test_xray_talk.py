"""Two voices talk by the socket: how they talked is told right before the end, and the persona that hears itself is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.call import eventually, play_out
from support.front import Caller, open_front
from support.two_voices import BACKCHANNELS, LOW, SENTENCES, hiss, lay, leaked, monologue, samples, say

from personaplex_app.audio import FRAME_SAMPLES, Pcm, silence
from personaplex_app.engine.echo import EchoStep, EchoStepper
from personaplex_app.engine.echo_guard import HEADPHONES
from personaplex_app.engine.facade import Engine


class Speaker(EchoStepper):
    """A persona that says a track, a frame for each that it hears; what a busy machine fills in is passed over."""

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.track = silence(0)
        self.said = 0

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        steps = {}
        for slot, pcm in heard.items():
            steps[slot] = EchoStep(frame(self.track, self.said) if pcm.any() else silence(), self._count(slot))
            self.said += bool(pcm.any())
        return steps


def frame(track: Pcm, number: int) -> Pcm:
    """A frame of it, silent after its end."""
    found = track[number * FRAME_SAMPLES : (number + 1) * FRAME_SAMPLES]
    return np.pad(found, (0, FRAME_SAMPLES - len(found)))


@pytest.fixture
def stepper() -> Speaker:
    return Speaker()


async def heard_out(stepper: Speaker, caller: Caller, heard: Pcm, first: int, end: int) -> None:
    """Frames go to the persona as fast as it takes them, and it takes them all."""

    async def taken(frames: int) -> None:
        await eventually(lambda: stepper.said >= frames, 20, f"{frames} frames")

    for number in range(first, end):
        await taken(number - 1)
        await caller.say_frame(frame(heard, number))
    await taken(end)


async def stopped(caller: Caller) -> tuple[dict[str, Any], list[str]]:
    """Ends the talk; the X-ray, and the last two types that were told."""
    await caller.say("stop")
    found = await caller.next("xray")
    await caller.next("ended")
    return found, [message["type"] for message in caller.told[-2:]]


def test_how_two_talked_is_told_before_the_end(engine: Engine, stepper: Speaker) -> None:
    asked, answer = say(SENTENCES[1], LOW), say(SENTENCES[9])
    heard, stepper.track = silence(samples(26)), silence(samples(26))
    at = lay(heard, samples(1), asked) + samples(0.8)
    end = lay(stepper.track, at, answer)
    lay(heard, at + samples(1.0), say(BACKCHANNELS[1], LOW))
    again = lay(heard, end + samples(1.0), asked) + samples(1.6)
    frames = min(len(heard), lay(stepper.track, again, answer) + samples(1.0)) // FRAME_SAMPLES
    heard += hiss(0, 26, -60)

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            await caller.talk(seed=1)
            await heard_out(stepper, caller, heard, 0, frames)
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
                await heard_out(stepper, caller, heard, 0, 150)
                told = await caller.next("echo", 60)
                assert (told["number"], told["action"], told["sentence"]) == (0, "began", HEADPHONES)
                assert abs(told["lag_ms"] - 300) <= 40 and abs(told["level_db"] + 15) <= 4
                await caller.lose()
            async with front.caller("anna") as caller:
                await caller.say("resume", grant=view["grant"], path="socket")
                await caller.come_in()
                await eventually(lambda: any(one["type"] == "echo" for one in caller.told), what="echo")
                assert [one["number"] for one in caller.told if one["type"] == "echo"] == [0]  # for whoever comes back
                await heard_out(stepper, caller, heard, 150, 200)
                talk = next(iter(front.desk._talks.values()))
                talk.count()
                found, _ = await stopped(caller)
                assert found["seconds"] >= 200 * 0.08 - 0.01
                assert [mark["action"] for mark in found["marks"] if mark["kind"] == "echo"] == ["began"]
                page = front.desk.metrics.render()[0].decode()
                assert 'personaplex_echo_total{event="leaks"} 1.0' in page
                assert not [message for message in caller.told if message["type"] == "guard"]

    play_out(story)


def test_a_short_talk_has_no_xray_and_one_that_fails_has_one(engine: Engine, stepper: Speaker) -> None:
    stepper.track = monologue(3, 10)
    heard = hiss(0, 10, -60)

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            for frames, kinds in ((10, []), (70, ["xray"])):
                await caller.talk(seed=1)
                stepper.said = 0
                await heard_out(stepper, caller, heard, 0, frames)
                front.desk.fail(next(iter(front.desk._talks.values())), "It broke.")
                assert (await caller.next("ended"))["code"] == "fault"
                assert [message["type"] for message in caller.told if message["type"] == "xray"] == kinds

    play_out(story)


def test_an_xray_that_cannot_be_made_keeps_nobody_from_the_end(
    engine: Engine, stepper: Speaker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("this X-ray was told to fail")

    monkeypatch.setattr("personaplex_app.web.teller.xray", broken)

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            await caller.talk(seed=1)
            await heard_out(stepper, caller, hiss(0, 10, -60), 0, 3)
            await caller.say("stop")
            assert (await caller.next("ended"))["code"] == "stopped"
            assert "xray" not in [message["type"] for message in caller.told]
            assert "the X-ray of a talk failed" in caplog.text

    play_out(story)
