"""A talk that is recorded: who speaks, what is told of the recording, what it holds."""

from __future__ import annotations

import io
import weakref
from collections.abc import Callable
from typing import Any

import soundfile
from support.call import play_out
from support.engine import ProbeStepper, frame_of
from support.front import Caller, Message, OpenFront, open_front
from support.voice_visitor import visiting

from personaplex_app.audio import FRAME_SAMPLES, Pcm
from personaplex_app.engine.facade import Engine
from personaplex_app.records.captions import SYNTHETIC

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
        return sum(one() is not None for one in self.watched)


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


def engine_frames(front: OpenFront) -> int:
    (talk,) = front.desk._talks.values()
    assert talk.session is not None
    return talk.session.counters.stepped
