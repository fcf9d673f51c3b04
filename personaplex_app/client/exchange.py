"""Carries a conversation out on a socket, and on the next one where that is lost. One task, one talk.

In: the socket's messages. Out: sound and events in two mailboxes. `conversation` decides, this obeys.
Must not know: who reads the mailboxes.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from personaplex_app.audio import Pcm, float_from_int16
from personaplex_app.client.conversation import Conversation, Phase
from personaplex_app.client.link import LinkLost
from personaplex_app.client.mailbox import Mailbox
from personaplex_app.client.messages import (
    Admitted,
    Echo,
    Event,
    Guard,
    Health,
    Pong,
    Reconnecting,
    StartedOver,
)
from personaplex_app.client.parsing import parse_message
from personaplex_app.errors import InvalidInput, ServerFault

if TYPE_CHECKING:
    from personaplex_app.client.line import Line

MOST_PIECES = 750  # a minute of frames that nobody took
MOST_EVENTS = 1_000
PING_SECONDS = 1.0
DEAD_SECONDS = 5.0  # a live server answers every ping
CONNECTION_GONE = "The connection was lost. Trying to go on with the talk ..."


class Exchange:
    """Runs until the conversation is over.

    Attributes:
        changed: set after every event. round_trip_seconds, step_ms: of the last ping, and of the model's last step.
        health: what the server last said of it.
    """

    def __init__(self, line: Line, course: Conversation) -> None:
        self.heard: Mailbox[Pcm] = Mailbox(MOST_PIECES)
        self.events: Mailbox[Event] = Mailbox(MOST_EVENTS)
        self.changed = asyncio.Event()
        self.round_trip_seconds: float | None = None
        self.step_ms = 0.0
        self.health: Health | None = None
        self._line = line
        self._course = course
        self._pieces = 0
        self._told: dict[type[Guard | Echo], int] = {}  # how many of a talk's
        self._pinged_at = self._last_at = time.monotonic()

    async def run(self) -> None:
        """The task's body; whatever happens, both mailboxes are closed at its end."""
        try:
            while not self._course.over:
                try:
                    await self._converse()
                except LinkLost:
                    self._course.disconnected(time.monotonic())
                    await self._find_the_way_back()
        except ServerFault as fault:
            self._course.fail(fault)
        finally:
            self._course.phase = Phase.OVER
            self.changed.set()
            self.heard.close()
            self.events.close()

    async def tell(self, message: dict[str, Any]) -> None:
        """One message of the user's; where the socket is gone the task finds that out by itself."""
        try:
            await self._line.link.send(message)
        except LinkLost:
            return

    async def send_sound(self, pcm16: bytes) -> bool:
        """False where there is no talk to send it to now, or the network does not take it."""
        return self._course.phase is Phase.TALKING and await self._line.link.send_sound(pcm16)

    async def _find_the_way_back(self) -> None:
        while not self._course.over:
            now = time.monotonic()
            self._tell_all(Reconnecting(max(0.0, self._course.seconds_left(now)), CONNECTION_GONE))
            wait = self._course.next_attempt(now)
            if self._course.over:
                return
            await asyncio.sleep(wait)
            try:
                return await self._line.reopen()
            except InvalidInput:
                continue

    async def _converse(self) -> None:
        """From the opening until the talk is over; raises LinkLost."""
        self._last_at = time.monotonic()
        await self._line.link.clear()
        await self._line.link.send(self._course.opening())
        while not self._course.over:
            received = await self._next()
            if isinstance(received, bytes):
                self._pieces += 1
                self.heard.put(float_from_int16(np.frombuffer(received[: len(received) & ~1], dtype="<i2")))
            elif received is not None:
                await self._hear(parse_message(received))

    async def _next(self) -> str | bytes | None:
        """The next message, or None where a second passed without one; pings on the way. Raises LinkLost."""
        now = time.monotonic()
        if now - self._pinged_at >= PING_SECONDS:
            self._pinged_at = now
            await self._line.link.send({"type": "ping", "at": now, "heard": self._pieces})
        try:
            async with asyncio.timeout(PING_SECONDS):
                received = await self._line.link.receive()
        except TimeoutError:
            if time.monotonic() - self._last_at > DEAD_SECONDS and self._course.phase is not Phase.ASKING:
                raise LinkLost from None
            return None
        self._last_at = time.monotonic()
        return received

    async def _hear(self, event: Event) -> None:
        if isinstance(event, Admitted):
            self._pieces = 0  # the server counts from here
        for answer in self._course.heard(event):
            await self._line.link.send(answer)
        if isinstance(event, Pong):
            self.round_trip_seconds = time.monotonic() - event.at
            self.step_ms = event.step_ms
            return
        if isinstance(event, Health):
            self.health = event
            return
        if isinstance(event, StartedOver):
            self._told.clear()
        if isinstance(event, Guard | Echo):
            if event.number < self._told.get(type(event), 0):
                return  # told again after a resume
            self._told[type(event)] = event.number + 1
        self._tell_all(event)
        if self._course.retry:
            raise LinkLost

    def _tell_all(self, event: Event) -> None:
        self.events.put(event)
        self.changed.set()
