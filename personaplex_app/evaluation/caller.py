"""One measuring call from its beginning to its place in the count, whatever happens to it.

In: a plan. Out: a result. `socket_caller` and `webrtc_caller` carry the sound. Must not know: other calls, processes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from personaplex_app.audio import Pcm
from personaplex_app.client import Admitted, Talk, TalkState, Waiting
from personaplex_app.errors import NoCapacity, PersonaplexError, ServerFault
from personaplex_app.evaluation.calls import CallPlan, CallResult, Listening

OVERTIME_SECONDS = 20.0


class Call:
    """A call that is being made.

    Attributes:
        listening: mouth and ear, once they are at work.
    """

    def __init__(self, plan: CallPlan, speech: Pcm | None = None) -> None:
        self.plan = plan
        self.speech = speech
        self.result = CallResult(plan.number, plan.kind)
        self.listening: Listening | None = None
        self._since = self._until = 0.0

    async def hold(self) -> None:
        """Makes the call at its moment; never raises, but for a cancellation."""
        result, plan = self.result, self.plan
        await asyncio.sleep(max(0.0, plan.begins_at - time.monotonic()))
        try:
            async with asyncio.timeout(plan.ends_at - time.monotonic() + OVERTIME_SECONDS):
                await self._carry()
            result.outcome = "completed"
        except PersonaplexError as error:
            fault = isinstance(error, ServerFault) or error.code == "unreachable"
            result.outcome = "failed" if result.begun or fault else "refused"
            result.code, result.sentence = error.code, error.sentence
        except TimeoutError:
            result.code, result.sentence = "timeout", "The call did not come to its end in time."
        except Exception as error:  # a caller of ours that breaks is a failed call, and said to be one
            result.code, result.sentence = "client_error", repr(error)[:300]

    async def _carry(self) -> None:
        if self.plan.kind == "socket":
            from personaplex_app.evaluation.socket_caller import by_socket

            await by_socket(self)
        else:
            from personaplex_app.evaluation.webrtc_caller import by_webrtc

            await by_webrtc(self)

    async def begin(self, talk: Talk, connect: Callable[[Admitted], Awaitable[None]] | None = None) -> None:
        """Up to the talk; `connect` opens the path of the sound by the ticket. Who is put in the line leaves it."""
        asked_at = time.monotonic()
        async for event in talk:
            if isinstance(event, Waiting):
                raise NoCapacity(event.sentence, code="in_line")
            if isinstance(event, Admitted) and connect is not None:
                await connect(event)
            if isinstance(event, TalkState) and event.state == "talking":
                break
        self._since = self._until = time.monotonic()
        self.result.connect_ms = round(1000 * (self._since - asked_at), 1)

    def note_end(self, talk: Talk) -> None:
        """The call ends here; what the server says of it is kept."""
        self._until = time.monotonic()
        self.result.unsent, self.result.losses = talk.unsent, talk.losses
        if talk.round_trip_seconds is not None:
            self.result.round_trip_ms = round(1000 * talk.round_trip_seconds, 2)
        if talk.state is not None:
            self.result.counters = dict(talk.state.counters)

    def measured(self) -> CallResult:
        """The result with all its figures; takes a while, so it is asked for when all calls are over."""
        if self.listening is not None and self.result.begun:
            self.listening.measure(self.result, self._since, self._until)
        return self.result
