"""Offers and candidates as the page's component posts them: no peer without a ticket, none that stays unfinished."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
import pytest
from aiortc import RTCPeerConnection, RTCSessionDescription
from starlette.requests import HTTPConnection
from support.call import eventually, open_desk, play_out
from support.desk import talking_at
from support.engine import CHOICES, ProbeStepper
from support.rtc_peer import Playing, tone

from personaplex_app.engine.admission import Limits
from personaplex_app.engine.facade import Engine
from personaplex_app.network import Network
from personaplex_app.web import signalling as signalling_module
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.doors import Doors
from personaplex_app.web.signalling import MOST_PEERS_PER_VISITOR, make_call_component
from personaplex_app.web.turn import IceMinter
from personaplex_app.web.visitors import COOKIE, Visitors

SDP = "v=0\r\nm=audio x\r\nm=application x"
CANDIDATE = {"candidate": "candidate:1 1 udp 2122260223 192.0.2.1 60683 typ host", "sdpMid": "0", "sdpMLineIndex": 0}


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=1)


@dataclass
class Page:
    """The component as it stands on a page, and browsers that send it signals."""

    desk: FrontDesk
    visitors: Visitors = field(default_factory=Visitors)
    peers: list[RTCPeerConnection] = field(default_factory=list)

    def __post_init__(self) -> None:
        doors, minter = Doors(self.visitors, Network()), IceMinter(Network())
        with gr.Blocks(analytics_enabled=False):
            box = gr.Textbox()
            options = {"mode": "send-receive", "modality": "audio", "server_rtc_configuration": {"iceServers": []}}
            self.component = make_call_component(self.desk, doors, minter, box, **options)

    @property
    def open(self) -> set[str]:
        """Peers that the server holds."""
        return set(self.component.pcs)

    async def signal(self, body: Any, visitor: str | None = "anna", origin: str | None = None) -> Any:
        """What the server answers; a refusal as its error."""
        headers = [(b"host", b"talk.example.org")]
        headers += [(b"cookie", f"{COOKIE}={self.visitors.sign(visitor)}".encode())] if visitor else []
        headers += [(b"origin", origin.encode())] if origin else []
        scope = {"type": "http", "headers": headers, "client": ("127.0.0.1", 1)}
        answer = await self.component.offer(body, HTTPConnection(scope))
        return answer["meta"]["error"] if isinstance(answer, dict) and answer.get("status") == "failed" else answer

    async def offer(self, webrtc_id: str, visitor: str | None = "anna", connect: bool = False) -> Any:
        """A real browser's offer; where it is answered and `connect`, the connection is finished."""
        peer = RTCPeerConnection()
        self.peers.append(peer)
        peer.addTrack(Playing(tone(440)))
        peer.createDataChannel("text")
        await peer.setLocalDescription(await peer.createOffer())
        body = {"type": "offer", "webrtc_id": webrtc_id, "sdp": peer.localDescription.sdp}
        answer = await self.signal(body, visitor)
        if connect:
            await peer.setRemoteDescription(RTCSessionDescription(answer["sdp"], "answer"))
        return answer

    async def close(self) -> None:
        for webrtc_id in self.open:
            await self.component.event_handler._peers.close(webrtc_id)
        for peer in self.peers:
            await peer.close()


@contextlib.asynccontextmanager
async def open_page(engine: Engine, limits: Limits | None = None) -> AsyncIterator[Page]:
    async with open_desk(engine, limits) as desk:
        page = Page(desk)
        try:
            yield page
        finally:
            await page.close()


JUNK: list[Any] = [
    None,
    [1],
    "offer",
    {},
    {"type": "offer"},
    {"type": "offer", "sdp": None, "webrtc_id": "z"},
    {"type": "offer", "sdp": SDP, "webrtc_id": 7},
    {"type": "offer", "sdp": SDP, "webrtc_id": "x" * 1_000},
    {"type": "offer", "sdp": "x" * 200_000, "webrtc_id": "x"},
    {"type": "answer", "sdp": SDP, "webrtc_id": "x"},
    {"type": "ice-candidate", "webrtc_id": "x"},
]


def test_junk_is_refused_and_leaves_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signalling_module, "UNFINISHED_SECONDS", 0.3)

    async def story() -> None:
        async with open_page(engine) as page:
            page.desk.ask("anna", "somewhere", CHOICES)
            for body in JUNK:
                assert await page.signal(body) == "bad_offer"
            assert await page.signal({"type": "offer", "sdp": SDP, "webrtc_id": "y"}) == "bad_offer"
            assert page.open == set() and page.component.connections == {}
            assert (await page.offer("y"))["type"] == "answer", "and the same id is still good"
            for number, sdp in enumerate(("junk", "v=0\r\n" * 1_000)):  # no media: aiortc takes it for an offer
                await page.signal({"type": "offer", "sdp": sdp, "webrtc_id": f"empty {number}"})
            await eventually(lambda: not page.open, 3.0, "all closed")

    play_out(story)


def test_an_offer_without_a_ticket_is_refused_before_a_connection_is_made(engine: Engine) -> None:
    async def story() -> None:
        async with open_page(engine) as page:
            body = {"type": "offer", "webrtc_id": "late", "sdp": SDP}
            assert await page.signal(body) == "concurrency_limit_reached"
            await talking_at(page.desk, "bert")
            page.desk.ask("anna", "somewhere", CHOICES)  # waits
            assert await page.signal(body) == "concurrency_limit_reached"
            assert await page.signal(body, None) == "concurrency_limit_reached"
            assert page.open == set()

    play_out(story)


def test_a_foreign_page_s_offer_is_refused(engine: Engine) -> None:
    async def story() -> None:
        async with open_page(engine) as page:
            page.desk.ask("anna", "somewhere", CHOICES)
            body = {"type": "offer", "webrtc_id": "x", "sdp": SDP}
            assert await page.signal(body, origin="https://elsewhere.example") == "bad_origin"
            assert page.open == set()

    play_out(story)


def test_an_offer_with_a_ticket_is_answered_and_belongs_to_its_visitor(engine: Engine) -> None:
    async def story() -> None:
        async with open_page(engine) as page:
            page.desk.ask("anna", "somewhere", CHOICES)
            page.desk.ask("bert", "somewhere", CHOICES)
            assert (await page.offer("mine"))["type"] == "answer"
            assert page.open == {"mine"}
            assert await page.offer("mine", "bert") == "connection_already_exists"
            candidate = {"type": "ice-candidate", "webrtc_id": "mine", "candidate": CANDIDATE}
            assert await page.signal(candidate, "bert") == "unknown_connection"
            assert await page.signal(candidate, None) == "unknown_connection"
            assert (await page.signal(candidate)).status_code == 200
            assert await page.signal({**candidate, "webrtc_id": "nobody"}) == "unknown_connection"

    play_out(story)


def test_an_offer_that_does_not_connect_is_closed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signalling_module, "UNFINISHED_SECONDS", 0.4)

    async def story() -> None:
        async with open_page(engine) as page:
            page.desk.ask("anna", "somewhere", CHOICES)
            await page.offer("unfinished")
            assert page.open == {"unfinished"}
            await eventually(lambda: not page.open, 2.0, "closed")
            assert (await page.offer("unfinished"))["type"] == "answer", "and forgotten"

    play_out(story)


def test_unfinished_offers_beside_an_honest_one_hold_nothing(engine: Engine) -> None:
    """As many as one may have: the fourth of the same visitor is refused, another visitor's is not."""

    async def story() -> None:
        async with open_page(engine) as page:
            for visitor in ("anna", "bert"):
                page.desk.ask(visitor, "somewhere", CHOICES)
            for number in range(MOST_PEERS_PER_VISITOR):
                assert (await page.offer(f"idle {number}"))["type"] == "answer"
            assert await page.offer("one more") == "concurrency_limit_reached"
            assert engine.status.free == 1
            await page.offer("honest", "bert", connect=True)
            honest = page.component.pcs["honest"]
            await eventually(lambda: honest.connectionState == "connected", 5.0, "connected")

    play_out(story)


def test_a_connection_that_brings_no_ticket_is_closed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex_app.web.handler.TICKET_SECONDS", 0.3)
    monkeypatch.setattr("personaplex_app.web.handler.FAREWELL_SECONDS", 0.1)

    async def story() -> None:
        async with open_page(engine) as page:
            talk = page.desk.ask("anna", "somewhere", CHOICES)
            await page.offer("guess", connect=True)
            await eventually(lambda: page.component.pcs.get("guess") is None, 5.0, "closed")
            assert engine.status.free == 1 and talk.ended is None
            page.desk.stop(talk)

    play_out(story)


def test_a_connection_with_its_ticket_talks_until_it_closes(engine: Engine) -> None:
    async def story() -> None:
        async with open_page(engine) as page:
            talk = page.desk.ask("anna", "somewhere", CHOICES)
            await page.offer("call", connect=True)
            page.component.set_input_gradio("call", talk.ticket.secret)
            await eventually(lambda: talk.talking, 5.0, "talking")
            await eventually(lambda: talk.session and talk.session.counters.heard > 3, 5.0, "heard")
            await page.peers[0].close()
            await eventually(lambda: talk.ended, 5.0, "ended")
            assert talk.ended is not None and talk.ended[0] == "lost" and engine.can_resume(talk.grant)
            await asyncio.sleep(0.2)
            assert page.open == set()

    play_out(story)
