"""One talk: sound both ways at 24 kHz, and what happens on the way.

In: float32 arrays. Out: float32 arrays, events, errors of our tree.
Must not know: sockets, where the sound comes from or goes to.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

from personaplex_app.audio import Pcm, int16_from_float
from personaplex_app.client.conversation import Conversation, Phase
from personaplex_app.client.exchange import Exchange
from personaplex_app.client.messages import Ended, Event, Health, TalkState
from personaplex_app.client.pace import PIECE_SAMPLES, Pace
from personaplex_app.errors import SessionEnded

if TYPE_CHECKING:
    from personaplex_app.client.line import Line

MOST_SAMPLES_SENT = 9_600
GOODBYE_SECONDS = 3.0


class Talk:
    """A talk; `async with line.talk(...) as talk`. Leaving the block stops it cleanly.

    Args:
        path: `webrtc` where somebody else carries the sound, with the ticket of the event `Admitted`.
    Attributes:
        unsent: pieces that were dropped because there was no connection, or a slow one.
        pace: the schedule of `say`, once something was said.
    """

    def __init__(self, line: Line, wishes: Any, path: str = "socket") -> None:
        self.unsent = 0
        self.pace: Pace | None = None
        self._course = Conversation(wishes, path)
        self._exchange = Exchange(line, self._course)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Talk:
        self._task = asyncio.create_task(self._exchange.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def transcript(self) -> str:
        """All that the persona has said so far."""
        return self._course.transcript

    @property
    def state(self) -> TalkState | None:
        """What the server last said of the talk, counters included."""
        return self._course.state

    @property
    def ended(self) -> Ended | None:
        """The server's last word, once it is said."""
        return self._course.ended

    @property
    def begun(self) -> bool:
        """Whether sound has travelled at all."""
        return self._course.begun

    @property
    def losses(self) -> int:
        """How often the connection was lost and had to be found again."""
        return self._course.losses

    @property
    def talking(self) -> bool:
        """Whether sound travels now."""
        return self._course.phase is Phase.TALKING

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self._course.over

    @property
    def round_trip_seconds(self) -> float | None:
        """Of the last ping; None before the first."""
        return self._exchange.round_trip_seconds

    @property
    def step_ms(self) -> float:
        """How long the model's last step took, as the server said with the last ping."""
        return self._exchange.step_ms

    @property
    def health(self) -> Health | None:
        """How the talk fares on the server, told about once a second and no event; None before the first."""
        return self._exchange.health

    async def started(self) -> None:
        """Waits in line and until the persona has read its prompt.

        Raises NoCapacity, InvalidInput, ServerFault or SessionEnded where there will be no talk, or is none any more.
        """
        while not self._course.begun:
            self._check()
            self._exchange.changed.clear()
            await self._exchange.changed.wait()
        self._check()

    def _check(self) -> None:
        if self._course.failure is not None:
            raise self._course.failure
        if self.over:
            sentence = self.ended.sentence if self.ended else "The talk is over."
            raise SessionEnded(sentence, code=self.ended.code if self.ended else "stopped")

    async def send(self, pcm: Pcm) -> None:
        """Sends float32 [n] at 24 kHz at once; a live microphone's pieces of 20 ms are what fits best.

        Waits for the talk to begin. While a connection is lost the sound is dropped and counted in `unsent`.
        Raises as `started` does.
        """
        await self.started()
        for start in range(0, len(pcm), MOST_SAMPLES_SENT):
            piece = int16_from_float(pcm[start : start + MOST_SAMPLES_SENT])
            if not await self._exchange.send_sound(piece.astype("<i2").tobytes()):
                self.unsent += 1

    async def say(self, pcm: Pcm) -> None:
        """Sends float32 [n] at the pace of speech; returns when the last of it is said. Raises as `started` does."""
        await self.started()
        if self.pace is None:
            self.pace = Pace()
        self.pace.resume()
        for start in range(0, len(pcm), PIECE_SAMPLES):
            await self.pace.wait()
            await self.send(pcm[start : start + PIECE_SAMPLES])

    async def receive(self) -> Pcm | None:
        """The next sound from the persona, float32 [n], n at most 1,920; None once the talk is over.

        Raises as `started` does where the talk failed.
        """
        piece = await self._exchange.heard.get()
        if piece is None and self._course.failure is not None:
            raise self._course.failure
        return piece

    def __aiter__(self) -> Talk:
        return self

    async def __anext__(self) -> Event:
        """Everything but sound, until the talk is over; raises as `started` does where it failed."""
        event = await self._exchange.events.get()
        if event is not None:
            return event
        if self._course.failure is not None:
            raise self._course.failure
        raise StopAsyncIteration

    async def set(self, **choices: Any) -> None:
        """New sampling or `loop_guard` during the talk; what cannot be used changes nothing: see `TalkState`."""
        await self._exchange.tell({"type": "set", "choices": choices})

    async def start_over(self, **choices: Any) -> None:
        """Begins the talk anew on the same line, with these choices and defaults for what is not named.

        `StartedOver` comes, then `TalkState` while the prompt is read; or `Refused`, and the talk goes on as it was.
        Sound that is sent meanwhile is dropped. Waits for the talk to begin; raises as `started` does.
        """
        await self.started()
        await self._exchange.tell({"type": "start_over", "choices": choices})

    async def record(self, on: bool = True) -> None:
        """Has the server keep the talk's sound and words from now on, or no more of them; `Recording` tells of it.

        Whoever speaks has to consent first. Needs a visitor's cookie.
        """
        await self._exchange.tell({"type": "record", "on": on})

    async def stop(self) -> None:
        """Ends the talk cleanly: the server keeps nothing of it. Does nothing where it is over."""
        task, self._task = self._task, None
        if task is None:
            return
        if not self.over:
            await self._exchange.tell({"type": "stop"})
        done, _ = await asyncio.wait([task], timeout=GOODBYE_SECONDS)
        if not done:
            task.cancel()
        await asyncio.gather(task, return_exceptions=not done)
