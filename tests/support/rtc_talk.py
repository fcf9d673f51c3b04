"""A talk over WebRTC without a browser: the talk's socket, gradio's signalling, an aiortc peer with the ticket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from aiortc import RTCSessionDescription
from support.rtc_peer import Microphone, Peer

from personaplex_app.client import Admitted, Talk, connect
from personaplex_app.evaluation.page_wire import PageWire, open_page
from personaplex_app.web.turn import aiortc_configuration

CONNECT_SECONDS = 15.0


@dataclass(frozen=True)
class RtcTalk:
    """A talk that runs, and the peer that carries its sound."""

    talk: Talk
    peer: Peer


@contextlib.asynccontextmanager
async def rtc_talk(url: str, microphone: Microphone) -> AsyncIterator[RtcTalk]:
    """A talk with the server at this address; in the block it has begun."""
    async with contextlib.AsyncExitStack() as stack:
        line = await stack.enter_async_context(connect(url, visit=True))
        wire = await stack.enter_async_context(open_page(url, line.cookie))
        talk = await stack.enter_async_context(Talk(line, {}, path="webrtc"))
        admitted = await _admitted(talk)
        peer = Peer(aiortc_configuration(admitted.ice_servers), microphone)
        stack.push_async_callback(peer.close)
        await _connect(peer, wire, admitted.ticket, stack)
        await asyncio.wait_for(talk.started(), CONNECT_SECONDS)
        yield RtcTalk(talk, peer)


async def _admitted(talk: Talk) -> Admitted:
    async with asyncio.timeout(CONNECT_SECONDS):
        async for event in talk:
            if isinstance(event, Admitted):
                return event
    raise AssertionError("the talk ended before a ticket came")


async def _connect(peer: Peer, wire: PageWire, ticket: str, stack: contextlib.AsyncExitStack) -> None:
    channel = peer.connection.createDataChannel("text")
    tasks: list[asyncio.Task[Any]] = []
    channel.on("open", lambda: channel.send("handshake"))

    def hear(message: str) -> None:
        if json.loads(message).get("type") == "send_input":
            tasks.append(asyncio.create_task(wire.send_inputs(ticket)))

    channel.on("message", hear)
    stack.push_async_callback(lambda: asyncio.gather(*tasks, return_exceptions=True))
    answer = await wire.offer((await peer.offer()).sdp)
    await peer.accept(RTCSessionDescription(answer, "answer"))
    assert await peer.settled(CONNECT_SECONDS) == "connected"
