"""A measuring call whose sound travels by WebRTC, signalled exactly as the page does it.

Must not know: what is measured; Opus.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from personaplex_app.client import Admitted, Talk, connect
from personaplex_app.client.address import parse_address
from personaplex_app.evaluation.caller import Call
from personaplex_app.evaluation.markers import Mouth
from personaplex_app.evaluation.page_wire import open_page
from personaplex_app.evaluation.peer import RATE_HZ, Peer


async def by_webrtc(call: Call) -> None:
    """The whole call; raises errors of our tree."""
    plan = call.plan
    address = parse_address(plan.url)
    async with contextlib.AsyncExitStack() as opened:
        line = await opened.enter_async_context(connect(plan.url, plan.auth, visit=True))
        wire = await opened.enter_async_context(open_page(address.page, line.cookie))
        talk = await opened.enter_async_context(Talk(line, {}, path="webrtc"))
        peer: Peer | None = None

        async def connect_peer(admitted: Admitted) -> None:
            nonlocal peer
            peer = Peer(Mouth(RATE_HZ, call.speech, plan.number), admitted.ice_servers)
            opened.push_async_callback(peer.close)
            call.listening = peer.listening
            await peer.connect(wire, admitted.ticket)

        await call.begin(talk, connect_peer)
        try:
            await _sit_out(talk, plan.ends_at)
        finally:
            call.note_end(talk)
            if peer is not None:
                call.result.packets_lost = await peer.packets_lost()
            await talk.stop()


async def _sit_out(talk: Talk, ends_at: float) -> None:
    """Until the call's end; raises where the talk ends before its time."""
    try:
        async with asyncio.timeout(max(0.0, ends_at - time.monotonic())):
            async for _ in talk:
                pass
            await talk.started()  # it is over, and this says why
    except TimeoutError:
        return
