"""A connection for trying the way only: "Check my set-up" sends a message through it and gets it back.

In: a browser's offer of one data channel. Out: our answer. It carries no sound, takes no slot and closes by itself.
Must not know: tickets, talks, FastRTC.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from aiortc import RTCPeerConnection, RTCSessionDescription

from personaplex_app.engine.joins import JoinLimit
from personaplex_app.errors import InvalidInput, NoCapacity
from personaplex_app.web.turn import IceMinter, aiortc_configuration

log = logging.getLogger(__name__)

MOST_CHECKS = 8
CHECKS_PER_ADDRESS = 10  # a minute
CHECK_SECONDS = 12.0
BROWSER_TTL_SECONDS = 120
REUSE_SECONDS = 60.0  # so that nobody makes us ask for credentials without end


class PathChecks:
    """The connections that are being tried, few and short-lived."""

    def __init__(self, minter: IceMinter) -> None:
        self._minter = minter
        self._closing: set[asyncio.Task[None]] = set()
        self._minted: list[dict[str, Any]] = []
        self._minted_at = float("-inf")
        self._minting = asyncio.Lock()
        self._by_address = JoinLimit(CHECKS_PER_ADDRESS, 60.0)

    @property
    def running(self) -> int:
        """How many are open."""
        return len(self._closing)

    async def servers(self, address: str) -> list[dict[str, Any]]:
        """ICE servers for a browser's try, good for a minute at least. Raises NoCapacity for who checks too often."""
        wait = self._by_address.wait_seconds(address, time.monotonic())
        if wait > 0:
            raise NoCapacity(f"Too many checks in a short time. Try again in {wait:.0f} s.", code="check_busy")
        self._by_address.note(address, time.monotonic())
        async with self._minting:
            if time.monotonic() - self._minted_at > REUSE_SECONDS:
                self._minted = await self._minter.browser(BROWSER_TTL_SECONDS)
                self._minted_at = time.monotonic()
            return self._minted

    async def answer(self, sdp: str) -> str:
        """Our side's session description. Raises NoCapacity while too many try, InvalidInput for what is no offer."""
        if self.running >= MOST_CHECKS:
            raise NoCapacity("Too many people check their set-up right now. Try again in a moment.", code="check_busy")
        peer = RTCPeerConnection(aiortc_configuration(await self._minter.server()))
        closing = asyncio.create_task(self._close_later(peer))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        peer.on("datachannel", _echo)
        try:
            await peer.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
            await peer.setLocalDescription(await peer.createAnswer())
        except Exception as error:
            log.debug("a check's offer could not be answered", exc_info=True)
            closing.cancel()
            raise InvalidInput("The check's offer cannot be used.", code="bad_message") from error
        return str(peer.localDescription.sdp)

    async def _close_later(self, peer: RTCPeerConnection) -> None:
        try:
            await asyncio.sleep(CHECK_SECONDS)
        finally:
            await asyncio.shield(peer.close())

    async def close(self) -> None:
        """Closes all of them now."""
        for closing in list(self._closing):
            closing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await closing


def _echo(channel: Any) -> None:
    @channel.on("message")  # type: ignore[untyped-decorator]
    def _(message: Any) -> None:
        if isinstance(message, str) and len(message) < 100:
            channel.send(message)
