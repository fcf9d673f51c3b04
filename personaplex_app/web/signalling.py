"""FastRTC's component with signalling of our own before its own.

In: offers and candidates as the page's component posts them. Out: answers, or a refusal. An offer from a visitor who
holds no admitted ticket, or that is none, is refused before a peer is made; one that fails, or does not connect in
time, leaves no peer behind. FastRTC's own limit is no gate. Must not know: the page's layout.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import gradio as gr
from fastrtc import WebRTC
from starlette.requests import HTTPConnection

from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.doors import Doors
from personaplex_app.web.handler import TICKET_SECONDS, CallHandler
from personaplex_app.web.offers import failed, is_signal
from personaplex_app.web.turn import IceMinter, aiortc_configuration

log = logging.getLogger(__name__)

MOST_PEERS = 256  # finished or not
MOST_PEERS_PER_VISITOR = 3
UNFINISHED_SECONDS = 15.0
CANDIDATE_SECONDS = 2.0  # a candidate may come before its offer is registered
LOOK_SECONDS = 0.05


class Signalling:
    """The peers of one component, by the id that the browser chose, and whose they are."""

    def __init__(self, component: WebRTC, desk: FrontDesk, doors: Doors, minter: IceMinter) -> None:
        self._component = component
        self._desk = desk
        self._doors = doors
        self._minter = minter
        self._visitors: dict[str, str | None] = {}
        self._answering: set[str] = set()
        self._timers: set[asyncio.Task[None]] = set()

    def visitor(self, webrtc_id: str) -> str | None:
        """Whose cookie came with this connection's offer."""
        return self._visitors.get(webrtc_id)

    async def close(self, webrtc_id: str) -> None:
        """Closes a connection, finished or not, and forgets it."""
        peer = self._component.pcs.get(webrtc_id)
        if peer is not None:
            await peer.close()
            self._component.clean_up(webrtc_id)
        self._visitors.pop(webrtc_id, None)

    async def take(self, body: Any, request: HTTPConnection) -> Any:
        """One signal of the page."""
        if not is_signal(body):
            return failed("bad_offer")
        if self._doors.refusal(request):
            return failed("bad_origin")
        visitor = self._doors.visitor(request)
        return await (self._take_offer if body["type"] == "offer" else self._take_candidate)(body, visitor)

    async def _take_offer(self, body: dict[str, Any], visitor: str | None) -> Any:
        webrtc_id = body["webrtc_id"]
        self._forget_closed()
        if webrtc_id in self._visitors:
            return failed("connection_already_exists")
        mine = sum(other == visitor for other in self._visitors.values())
        expected = self._desk.expected(visitor)
        if mine >= MOST_PEERS_PER_VISITOR * expected or len(self._visitors) >= MOST_PEERS:
            return failed("concurrency_limit_reached")
        self._visitors[webrtc_id] = visitor
        self._answering.add(webrtc_id)
        try:
            return await self._answer(body, webrtc_id)
        except Exception:
            log.warning("an offer could not be answered", exc_info=True)
            await self.close(webrtc_id)
            return failed("bad_offer")
        finally:
            self._answering.discard(webrtc_id)

    async def _answer(self, body: dict[str, Any], webrtc_id: str) -> Any:
        component = self._component
        component.server_rtc_configuration = aiortc_configuration(await self._minter.server())
        answer = await component.handle_offer(body, component.set_additional_outputs(webrtc_id))
        timer = asyncio.create_task(self._close_unfinished(webrtc_id))
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)
        return answer

    async def _take_candidate(self, body: dict[str, Any], visitor: str | None) -> Any:
        """Only for a connection of the same visitor; one that comes before its offer is through waits for it."""
        webrtc_id, waited = body["webrtc_id"], 0.0
        while waited < CANDIDATE_SECONDS and webrtc_id in self._visitors:
            if self._visitors[webrtc_id] != visitor:
                return failed("unknown_connection")
            peer = self._component.pcs.get(webrtc_id)
            if peer is not None and peer.remoteDescription is not None:
                return await self._component.handle_offer(body, lambda outputs: None)
            await asyncio.sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS
        return failed("unknown_connection")

    async def _close_unfinished(self, webrtc_id: str) -> None:
        """A peer has some seconds to connect, then some for its channel and its ticket."""
        waited = 0.0
        while waited < UNFINISHED_SECONDS and self._state(webrtc_id) not in ("connected", "closed"):
            await asyncio.sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS
        if self._state(webrtc_id) == "connected":
            await asyncio.sleep(TICKET_SECONDS)
        begun = getattr(self._component.handlers.get(webrtc_id), "begun", False)
        if self._state(webrtc_id) != "connected" or not begun:
            await self.close(webrtc_id)

    def _state(self, webrtc_id: str) -> str:
        peer = self._component.pcs.get(webrtc_id)
        return "closed" if peer is None else str(peer.connectionState)

    def _forget_closed(self) -> None:
        for webrtc_id in set(self._visitors) - self._answering:
            peer = self._component.pcs.get(webrtc_id)
            if peer is None or peer.connectionState in ("closed", "failed"):
                del self._visitors[webrtc_id]


def make_call_component(desk: FrontDesk, doors: Doors, minter: IceMinter, ticket: Any, **options: Any) -> WebRTC:
    """The WebRTC component, wired to the desk: microphone in, voice out, the ticket's box as its only input.

    Args:
        options: arguments of `fastrtc.WebRTC`.
    """
    component = WebRTC(**options)
    signalling = Signalling(component, desk, doors, minter)

    async def offer(body: Any, request: gr.Request) -> Any:
        return await signalling.take(body, getattr(request, "request", request))  # gradio hands over either kind

    offer._is_server_fn = True  # type: ignore[attr-defined]
    component.offer = offer
    handler = CallHandler(desk, signalling)
    component.stream(fn=handler, inputs=[component, ticket], outputs=[component], concurrency_limit=MOST_PEERS + 1)
    return component
