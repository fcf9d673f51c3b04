"""The one file that knows FastRTC: its handler's life becomes an engine session's, and nothing more.

In: 48 kHz packets and the page's values. Out: 48 kHz packets, page updates, a sentence when a call ends.
Must not know: models, page layout.

FastRTC's output queue is unbounded and paced; its depth is read here, and `pacing` keeps it short.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import html
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import numpy as np
from fastrtc import AdditionalOutputs, AsyncStreamHandler, CloseStream, WebRTC, get_current_context

from personaplex_app.audio import float_from_int16
from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.errors import InvalidInput, PersonaplexError
from personaplex_app.halfband import DoubleRate, HalveRate
from personaplex_app.web.call_view import CallView, refused, view_session
from personaplex_app.web.calls import Calls
from personaplex_app.web.form import Form
from personaplex_app.web.offers import failed, is_signal
from personaplex_app.web.pacing import PACKET_MS, SpokenPacer

log = logging.getLogger(__name__)

WIRE_RATE_HZ = 48_000
ARGS_SECONDS = 10.0
MOST_PEERS = 256  # finished or not; an unfinished one is closed by FastRTC after 30 s
SILENT_PEER_SECONDS = 3.0
PEER_LOST = "The connection was lost."
NO_ARGS = "The page's settings did not arrive. Reload the page and try again."
UNEXPECTED = "Something failed on the server and the call was ended. Start again."
LOOK_SECONDS = 0.008
GRACE_SECONDS = 0.022  # an empty queue still has a packet on its way, and 40 ms until the next is due
UPDATE_SECONDS = 0.08
NEXT_CALL = "The new prompt and voice hold from the next call."

Emitted: TypeAlias = AdditionalOutputs | CloseStream | tuple[int, np.ndarray[Any, Any], str] | None


class CallHandler(AsyncStreamHandler):
    """One visitor's call; FastRTC makes a copy per connection.

    Args:
        close_peer: closes a connection by its id, for peers that fell silent.
    """

    def __init__(self, engine: Engine, calls: Calls, close_peer: Callable[[str], Awaitable[None]]) -> None:
        super().__init__("mono", output_sample_rate=WIRE_RATE_HZ, input_sample_rate=WIRE_RATE_HZ)
        self._engine = engine
        self._calls = calls
        self._close_peer = close_peer
        self._session: Session | None = None
        self._asked: SamplingSettings | None = None
        self._refusal = ""
        self._notice = ""
        self._closed = False
        self._said_goodbye = False
        self._id = ""
        self._down, self._up = HalveRate(), DoubleRate()
        self.pacer = SpokenPacer()
        self._changed = asyncio.Event()
        self._shown = CallView()
        self._shown_at = 0.0
        self._seen_args: Any = None
        self._last_packet_at = time.monotonic()
        self._empty_since: float | None = None
        self._watchdog: asyncio.Task[None] | None = None

    def copy(self) -> CallHandler:
        """A fresh handler for a new connection; cheap."""
        return CallHandler(self._engine, self._calls, self._close_peer)

    async def start_up(self) -> None:
        """Waits for the page's values, then joins the engine; a refusal becomes the call's last words."""
        self._id = get_current_context().webrtc_id
        self._last_packet_at = time.monotonic()
        self._watchdog = asyncio.create_task(self._watch_peer())
        self._show(CallView())
        try:
            await asyncio.wait_for(self.wait_for_args(), ARGS_SECONDS)
            self._seen_args = self.latest_args
            await self._join()
        except TimeoutError:
            self._refuse(NO_ARGS)
        except PersonaplexError as error:
            self._refuse(error.sentence)
        except Exception:
            log.exception("a call could not start")
            self._refuse(UNEXPECTED)

    async def _join(self) -> None:
        choices = Form.from_args(self.latest_args).choices()
        loop = asyncio.get_running_loop()

        def notify() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._changed.set)

        session = await asyncio.to_thread(self._engine.join, choices, notify)
        if self._closed:
            self._engine.leave(session, PEER_LOST)
            return
        self._session, self._asked = session, choices.sampling

    def _refuse(self, sentence: str) -> None:
        self._refusal = sentence
        self._changed.set()

    async def receive(self, frame: tuple[int, np.ndarray[Any, Any]]) -> None:
        """One packet from the microphone, int16 at 48 kHz; only enqueues."""
        self._last_packet_at = time.monotonic()
        if self._session is None:
            return
        pcm = float_from_int16(frame[1].reshape(-1))
        self._engine.hear(self._session, self._down.push(pcm))

    async def emit(self) -> Emitted:
        """The next thing to send; an error in here would silence the call for ever, so none gets out."""
        try:
            return await self._next()
        except Exception:
            log.exception("a call's output failed")
            if self._session is not None:
                self._engine.leave(self._session, UNEXPECTED)
            self._said_goodbye = True
            return _farewell(UNEXPECTED)

    async def _next(self) -> Emitted:
        self._take_new_settings()
        update = self._page_update()
        if update is not None:
            return AdditionalOutputs(update)
        if self._over:
            return await self._goodbye()
        frame = self._session.take_spoken() if self._session else None
        if frame is not None:
            self._empty_since = None
            piece = self.pacer.frame(frame.pcm, self._waiting_ms)
            return None if piece is None else self._packet(piece)
        await self._wait_for_change()
        return self._packet(self.pacer.fill()) if self._gap_is_due() else None

    def _gap_is_due(self) -> bool:
        """Whether the queue has been empty for so long that silence must fill it."""
        if self._waiting_ms > 0 or self._closed:
            self._empty_since = None
            return False
        if self._session is None or self._session.state is not SessionState.TALKING:
            return True  # nothing to wait for: an even stream lets the browser's buffer settle
        if self._empty_since is None:
            self._empty_since = time.monotonic()
        if time.monotonic() - self._empty_since < GRACE_SECONDS:
            return False
        self._empty_since = None
        return True

    def _packet(self, pcm: Any) -> tuple[int, np.ndarray[Any, Any], str]:
        doubled = self._up.push(pcm)
        # Both channels by hand: FastRTC's own way from mono to stereo takes 3 dB off.
        return WIRE_RATE_HZ, np.stack([doubled, doubled]), "stereo"

    async def _wait_for_change(self) -> None:
        """Waits a moment for the session to have something."""
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
        return bool(self._refusal) or (self._session is not None and self._session.state is SessionState.ENDED)

    async def _goodbye(self) -> Emitted:
        if self._said_goodbye:
            await asyncio.sleep(0.1)
            return None
        self._said_goodbye = True
        return _farewell(self._refusal or (self._session.ended_because if self._session else UNEXPECTED))

    def _take_new_settings(self) -> None:
        """Sliders moved during the call; what cannot be used is said and changes nothing."""
        if self._session is None or self.latest_args is self._seen_args:
            return
        self._seen_args = self.latest_args
        try:
            form = Form.from_args(self.latest_args)
            sampling = form.sampling()
        except InvalidInput as error:
            self._notice = error.sentence
            return
        self._notice = NEXT_CALL if form.differs(self._session.choices) else ""
        if sampling != self._asked:
            self._asked = sampling
            self._session.want_sampling(sampling)

    def _page_update(self) -> CallView | None:
        """The page's new words, at most once a frame's time, and always the last ones."""
        view = self._view()
        now = time.monotonic()
        if view == self._shown or (not view.over and now - self._shown_at < UPDATE_SECONDS) or self._closed:
            return None
        self._shown_at = now
        self._show(view)
        return view

    def _view(self) -> CallView:
        if self._refusal:
            return refused(self._refusal)
        return CallView() if self._session is None else view_session(self._session, self._notice)

    def _show(self, view: CallView) -> None:
        self._shown = view
        self._calls.show(self._id, view)

    async def _watch_peer(self) -> None:
        """A peer that sends nothing for some seconds is gone, whatever its connection says."""
        while not self._closed:
            await asyncio.sleep(0.25)
            if time.monotonic() - self._last_packet_at > SILENT_PEER_SECONDS:
                self._leave(PEER_LOST)
                await self._close_peer(self._id)
                return

    def _leave(self, because: str) -> None:
        self._closed = True
        if self._session is not None:
            self._engine.leave(self._session, because)
        self._calls.show(self._id, self._view())

    async def shutdown(self) -> None:
        """The connection is over; frees the slot, however often it is called."""
        if not self._closed:
            self._leave(YOU_STOPPED)
        if self._watchdog is not None and self._watchdog is not asyncio.current_task():
            self._watchdog.cancel()


def _farewell(sentence: str) -> CloseStream:
    """Closes the call with a sentence; the page shows it as HTML, so it is escaped."""
    return CloseStream(html.escape(sentence, quote=False))


def make_call_component(engine: Engine, calls: Calls, **options: Any) -> WebRTC:
    """The WebRTC component with signalling of our own before FastRTC's.

    An offer that comes while every slot is taken, or that is none, is refused before a peer is made; one that fails
    leaves no peer behind. FastRTC's own limit is no gate here: peers that never finish would shut honest ones out.

    Args:
        options: arguments of `fastrtc.WebRTC`.
    """
    component = WebRTC(**options)

    async def offer(body: Any) -> Any:
        if not is_signal(body):
            return failed("bad_offer")
        webrtc_id = body["webrtc_id"]
        if body["type"] == "offer":
            try:
                engine.check_capacity()
            except PersonaplexError as error:
                calls.show(webrtc_id, refused(error.sentence))
                return failed("concurrency_limit_reached")
            if len(component.pcs) >= MOST_PEERS:
                return failed("concurrency_limit_reached")
        try:
            return await component.handle_offer(body, component.set_additional_outputs(webrtc_id))
        except Exception:
            log.warning("an offer could not be answered", exc_info=True)
            await _close_peer(component, webrtc_id)
            component.clean_up(webrtc_id)
            return failed("bad_offer")

    offer._is_server_fn = True  # type: ignore[attr-defined]
    component.offer = offer
    return component


async def _close_peer(component: WebRTC, webrtc_id: str) -> None:
    peer = component.pcs.get(webrtc_id)
    if peer is not None:
        await peer.close()


def connect_stream(component: WebRTC, engine: Engine, calls: Calls, inputs: list[Any], outputs: list[Any]) -> None:
    """Wires the component to the engine: microphone in, voice out, the page's boxes as inputs and outputs."""
    handler = CallHandler(engine, calls, functools.partial(_close_peer, component))
    component.stream(fn=handler, inputs=[component, *inputs], outputs=[component], concurrency_limit=MOST_PEERS + 1)
    component.on_additional_outputs(
        lambda view: (view.transcript, view.status, view.applied),
        outputs=outputs,
        show_progress="hidden",
        concurrency_limit=None,
    )
