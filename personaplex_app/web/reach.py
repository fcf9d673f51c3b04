"""Which STUN and TURN servers answer from here: a dead one would hold up every connection for five seconds.

aiortc also takes one relay only, so where this machine cannot send UDP it must be shown the one over TCP.
In: ICE servers. Out: those of their addresses that answer. Must not know: credentials, who minted them.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
import time
from collections.abc import Awaitable, Callable, Iterable

from aiortc.rtcicetransport import parse_stun_turn_uri

from personaplex_app.network import IceServer, urls_of

ANSWER_SECONDS = 1.5
REPEAT_SECONDS = 0.4
ALIVE_SECONDS, DEAD_SECONDS = 600.0, 60.0  # how long a finding holds
BINDING_REQUEST, MAGIC_COOKIE, HEADER_BYTES = 0x0001, 0x2112A442, 20


class Reach:
    """Remembers for a while what answered.

    Args:
        answers: whether an address answers. clock: steady seconds.
    """

    def __init__(
        self, answers: Callable[[str], Awaitable[bool]] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._answers = answers or answers_from_here
        self._clock = clock
        self._found: dict[str, tuple[bool, float]] = {}

    async def only(self, servers: Iterable[IceServer]) -> list[IceServer]:
        """The servers with those of their addresses that answer; without the ones that have none."""
        servers = list(servers)
        await self._look({url for server in servers for url in urls_of(server)})
        alive = ([url for url in urls_of(server) if self._found[url][0]] for server in servers)
        return [{**server, "urls": urls} for server, urls in zip(servers, alive, strict=True) if urls]

    async def _look(self, urls: set[str]) -> None:
        """Asks those of whom nothing is known any more; what is not in use is forgotten."""
        now = self._clock()
        known = {url: self._found[url] for url in urls if url in self._found and now < self._found[url][1]}
        asked = sorted(urls - known.keys())
        for url, alive in zip(asked, await asyncio.gather(*map(self._answers, asked)), strict=True):
            known[url] = alive, now + (ALIVE_SECONDS if alive else DEAD_SECONDS)
        self._found = known


async def answers_from_here(url: str) -> bool:
    """Whether a `stun:`, `turn:` or `turns:` address answers a question that needs no credentials."""
    try:
        parsed = parse_stun_turn_uri(url)
    except ValueError:
        return False  # nor can aiortc read it
    host, port, over = parsed["host"], parsed["port"], parsed.get("transport", "udp")
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await (_answers_udp(host, port) if over == "udp" else _accepts_tcp(host, port))
    except (OSError, TimeoutError):
        return False


async def _accepts_tcp(host: str, port: int) -> bool:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    return True


async def _answers_udp(host: str, port: int) -> bool:
    """Asks for a binding, again and again until it is answered; any answer will do, a refusal too."""
    question = _Question()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: question, remote_addr=(host, port))
    try:
        while not question.answered.done():
            transport.sendto(question.request)
            await asyncio.wait([question.answered], timeout=REPEAT_SECONDS)
    finally:
        transport.close()
    return question.answered.result()


class _Question(asyncio.DatagramProtocol):
    """One STUN binding request, RFC 8489, and whether it was answered."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._number = secrets.token_bytes(12)
        self.request = struct.pack("!HHI", BINDING_REQUEST, 0, MAGIC_COOKIE) + self._number

    def datagram_received(self, datagram: bytes, address: object) -> None:
        if len(datagram) >= HEADER_BYTES and datagram[8:HEADER_BYTES] == self._number:
            self._settle(True)

    def error_received(self, error: Exception) -> None:
        self._settle(False)

    def _settle(self, answered: bool) -> None:
        if not self.answered.done():
            self.answered.set_result(answered)
