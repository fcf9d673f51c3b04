"""Talks at a front desk without sockets: what tests of the desk do with it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
from support.call import eventually
from support.engine import CHOICES, ProbeStepper, frame_of

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS, Pcm
from personaplex_app.controls import Choices
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.talk import Talk


class Door(ProbeStepper):
    """An echo whose `open` waits at a door, as reading a big voice would."""

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.door = threading.Event()
        self.door.set()

    def open(self, choices: Choices, voice: Any = None) -> Choices:
        assert self.door.wait(20)
        return super().open(choices, voice)


async def talking_at(desk: FrontDesk, visitor: str = "anna", path: str = "socket") -> Talk:
    """Admitted, connected, talking."""
    talk = desk.ask(visitor, "somewhere", CHOICES)
    await desk.enter(talk, path)
    await eventually(lambda: talk.talking, what="talking")
    return talk


async def slot_free(desk: FrontDesk) -> float:
    return await eventually(lambda: desk.engine.status.free, what="slot free")


class Voice:
    """Keeps a talk's sound coming until the block is left: sound of one frame after another, at the pace of time."""

    def __init__(self, desk: FrontDesk, talk: Talk, pcm: Pcm | None = None) -> None:
        self._desk, self._talk, self._pcm = desk, talk, frame_of(0.0) if pcm is None else pcm

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._speak())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _speak(self) -> None:
        at = 0
        while True:
            self._talk.hear(self._desk.engine, np.take(self._pcm, range(at, at + FRAME_SAMPLES), mode="wrap"))
            at += FRAME_SAMPLES
            await asyncio.sleep(FRAME_SECONDS)
