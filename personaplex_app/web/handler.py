"""FastRTC's side of a talk: a connection's sound becomes the talk's, and nothing more.

In: 48 kHz packets and the page's ticket. Out: 48 kHz packets, a sentence when the connection ends.
Must not know: models, page layout, the line. Words, status and sliders travel on the talk's socket.

FastRTC's output queue is unbounded and paced; its depth is read here, and `pacing` keeps it short.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import logging
import time
from typing import Any, Protocol, TypeAlias

import numpy as np
from fastrtc import AsyncStreamHandler, CloseStream, get_current_context

from personaplex_app.audio import float_from_int16
from personaplex_app.errors import PersonaplexError
from personaplex_app.halfband import DoubleRate, HalveRate
from personaplex_app.web.desk import LOST, FrontDesk
from personaplex_app.web.pacing import PACKET_MS, SpokenPacer
from personaplex_app.web.talk import Talk
from personaplex_app.web.talk_health import Outlet

log = logging.getLogger(__name__)

WIRE_RATE_HZ = 48_000
TICKET_SECONDS = 2.0
PATH = "webrtc"
NO_TICKET = "This connection brought no valid ticket. Reload the page and press Talk."
UNEXPECTED = "Something failed on the server and the call was ended. Start again."
MOVED = "The sound travels another way now."
LOOK_SECONDS = 0.008
GRACE_SECONDS = 0.022  # an empty queue still has a packet on its way, and 40 ms until the next is due
FAREWELL_SECONDS = 2.0

Emitted: TypeAlias = CloseStream | tuple[int, np.ndarray[Any, Any], str] | None


class Peers(Protocol):
    """What the signalling knows of connections, by the id that the browser chose."""

    def visitor(self, webrtc_id: str) -> str | None:
        """Whose cookie came with the offer."""

    async def close(self, webrtc_id: str) -> None:
        """Closes the connection."""


class CallHandler(AsyncStreamHandler):
    """One connection; FastRTC makes a copy per connection."""

    def __init__(self, desk: FrontDesk, peers: Peers) -> None:
        super().__init__("mono", output_sample_rate=WIRE_RATE_HZ, input_sample_rate=WIRE_RATE_HZ)
        self._desk = desk
        self._peers = peers
        self._talk: Talk | None = None
        self.begun = False  # FastRTC calls `start_up` once sound and a data channel are there
        self._refusal = ""
        self._closed = False
        self._said_goodbye = False
        self._id = ""
        self._down, self._up = HalveRate(), DoubleRate()
        self.pacer = SpokenPacer()
        self._changed = asyncio.Event()
        self._empty_since: float | None = None
        self._in_gap = False
        self._closing: asyncio.Task[None] | None = None

    def copy(self) -> CallHandler:
        """A fresh handler for a new connection; cheap."""
        return CallHandler(self._desk, self._peers)

    async def start_up(self) -> None:
        """Sound flows: waits for the ticket, then opens its slot; a refusal becomes the connection's last words."""
        self.begun = True
        self._id = get_current_context().webrtc_id
        try:
            async with asyncio.timeout(TICKET_SECONDS):
                talk = await self._ticket_holder()
            await self._desk.enter(talk, PATH)
        except TimeoutError:
            self._refuse(NO_TICKET)
        except PersonaplexError as error:
            self._refuse(error.sentence)
        except Exception:
            log.exception("a call could not start")
            self._refuse(UNEXPECTED)
        else:
            self._follow(talk)

    async def _ticket_holder(self) -> Talk:
        """The talk whose ticket the page brings; what is no ticket of this visitor's is waited past."""
        while True:
            await self.wait_for_args()
            talk = self._desk.talk_with(str(self.latest_args[-1]))
            if talk is not None and talk.belongs_to(self._peers.visitor(self._id)):
                return talk
            await asyncio.sleep(0.05)

    def _follow(self, talk: Talk) -> None:
        if self._closed:
            if talk.path == PATH:
                self._desk.lose(talk)
            return
        self._talk = talk
        talk.outlet = Outlet(lambda: self._waiting_ms, self.pacer.counters)
        if talk.meter is not None:
            talk.meter.note(self.pacer.counters)
        self._changed = talk.listen()

    def _refuse(self, sentence: str) -> None:
        self._refusal = sentence
        self._changed.set()

    async def receive(self, frame: tuple[int, np.ndarray[Any, Any]]) -> None:
        """One packet from the microphone, int16 at 48 kHz; only enqueues."""
        if self._talk is None or self._talk.path != PATH:
            return
        self._talk.hear(self._desk.engine, self._down.push(float_from_int16(frame[1].reshape(-1))))

    async def emit(self) -> Emitted:
        """The next thing to send; an error in here would silence the call for ever, so none gets out."""
        try:
            return await self._next()
        except Exception:
            log.exception("a call's output failed")
            if self._talk is not None:
                self._desk.fail(self._talk, UNEXPECTED)
            self._said_goodbye = True
            return _farewell(UNEXPECTED)

    async def _next(self) -> Emitted:
        if self._over:
            return await self._goodbye()
        frame = self._talk.take_spoken() if self._talk else None
        if frame is not None:
            self._empty_since, self._in_gap = None, False
            piece = self.pacer.frame(frame.pcm, self._waiting_ms)
            return None if piece is None else self._packet(piece)
        await self._wait_for_change()
        return self._packet(self.pacer.fill()) if self._gap_is_due() else None

    def _gap_is_due(self) -> bool:
        """Whether the queue has been empty for so long that silence must fill it."""
        if self._waiting_ms > 0 or self._closed:
            self._empty_since = None
            return False
        if self._in_gap or self._talk is None or not self._talk.talking:
            return True  # nothing to wait for: an even stream lets the browser's buffer settle
        if self._empty_since is None:
            self._empty_since = time.monotonic()
        if time.monotonic() - self._empty_since < GRACE_SECONDS:
            return False
        self._empty_since, self._in_gap = None, True
        return True

    def _packet(self, pcm: Any) -> tuple[int, np.ndarray[Any, Any], str]:
        doubled = self._up.push(pcm)
        # Both channels by hand: FastRTC's own way from mono to stereo takes 3 dB off.
        return WIRE_RATE_HZ, np.stack([doubled, doubled]), "stereo"

    async def _wait_for_change(self) -> None:
        """Waits a moment for the talk to have something."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):  # Python 3.11's `wait_for` can swallow a cancellation
                await self._changed.wait()
            self._changed.clear()

    @property
    def _waiting_ms(self) -> float:
        """Sound that waits in FastRTC's queue; its depth is reachable only through the bound method it hands us."""
        queue = self.clear_queue.__self__.queue
        return float(queue.qsize() * PACKET_MS)

    @property
    def _over(self) -> bool:
        talk = self._talk
        return bool(self._refusal) or (talk is not None and (talk.ended is not None or talk.path != PATH))

    async def _goodbye(self) -> Emitted:
        if self._said_goodbye:
            await asyncio.sleep(0.1)
            return None
        self._said_goodbye = True
        self._closing = asyncio.create_task(self._close_peer())
        ended = self._talk.ended if self._talk else None
        return _farewell(self._refusal or (ended[1] if ended else MOVED))

    async def _close_peer(self) -> None:
        """A page closes at the farewell; who does not is closed."""
        await asyncio.sleep(FAREWELL_SECONDS)
        await self._peers.close(self._id)

    async def shutdown(self) -> None:
        """The connection is over; a talk that still ran on it is parked. It may be called often."""
        if self._closed:
            return
        self._closed = True
        if self._closing is not None and self._closing is not asyncio.current_task():
            self._closing.cancel()
        talk = self._talk
        if talk is not None:
            talk.unlisten(self._changed)
            if talk.meter is not None:
                talk.meter.note(self.pacer.counters)
            if talk.path == PATH and talk.ended is None:
                self._desk.lose(talk, LOST)


def _farewell(sentence: str) -> CloseStream:
    """Closes the call with a sentence; the page shows it as HTML, so it is escaped."""
    return CloseStream(html.escape(sentence, quote=False))
