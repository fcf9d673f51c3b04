"""A measuring call whose sound travels on the talk's socket.

Must not know: what is measured; WebRTC.
"""

from __future__ import annotations

import asyncio
import time

from personaplex_app.audio import SAMPLE_RATE_HZ
from personaplex_app.client import Talk, connect
from personaplex_app.client.pace import PIECE_SECONDS, Pace
from personaplex_app.evaluation.caller import Call
from personaplex_app.evaluation.calls import Listening
from personaplex_app.evaluation.markers import Mouth


async def by_socket(call: Call) -> None:
    """The whole call; raises errors of our tree."""
    plan = call.plan
    async with connect(plan.url, plan.auth) as line, line.talk() as talk:
        await call.begin(talk)
        listening = call.listening = Listening(Pace(start=time.monotonic() + PIECE_SECONDS))
        listener = asyncio.create_task(_listen(talk, listening))
        try:
            await _speak(talk, listening.pace, Mouth(SAMPLE_RATE_HZ, call.speech, plan.number), plan.ends_at)
        finally:
            call.note_end(talk)
            await talk.stop()
            await asyncio.gather(listener, return_exceptions=True)


async def _speak(talk: Talk, pace: Pace, mouth: Mouth, ends_at: float) -> None:
    while pace.due < ends_at:
        await pace.wait()
        await talk.send(mouth.piece(pace.pieces - 1))


async def _listen(talk: Talk, listening: Listening) -> None:
    while (piece := await talk.receive()) is not None:
        listening.hear(piece, time.monotonic())
