"""Which servers answer: by UDP, by TCP, not at all; and how long that is believed."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from personaplex_app.web import reach
from personaplex_app.web.reach import ALIVE_SECONDS, DEAD_SECONDS, Reach, answers_from_here


class Stun(asyncio.DatagramProtocol):
    """Answers from the second question on, as one does whose first packet was lost; or with somebody else's number."""

    def __init__(self, wrong_number: bool = False) -> None:
        self._wrong_number = wrong_number
        self.asked: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, datagram: bytes, address: Any) -> None:
        self.asked.append(datagram)
        if len(self.asked) > 1:
            number = bytes(12) if self._wrong_number else datagram[8:20]
            self.transport.sendto(b"x", address)
            self.transport.sendto(b"\x01\x01\x00\x00\x21\x12\xa4\x42" + number, address)


async def _stun(protocol: Stun) -> int:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: protocol, ("127.0.0.1", 0))
    return int(transport.get_extra_info("sockname")[1])


def _run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def test_a_server_that_answers_a_binding_is_there() -> None:
    async def story() -> None:
        server = Stun()
        port = await _stun(server)
        for scheme in ("stun", "turn"):
            assert await answers_from_here(f"{scheme}:127.0.0.1:{port}")
        assert server.asked[0][:8] == b"\x00\x01\x00\x00\x21\x12\xa4\x42" and len(server.asked[0]) == 20
        server.transport.close()

    _run(story())


def test_one_that_is_silent_gone_or_answers_somebody_else_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(reach, "REPEAT_SECONDS", 0.1)

    async def story() -> None:
        server = Stun(wrong_number=True)
        port = await _stun(server)
        before = asyncio.all_tasks()
        began = time.monotonic()
        assert not await answers_from_here(f"turn:127.0.0.1:{port}?transport=udp")
        assert len(server.asked) >= 2 and time.monotonic() - began < 3
        server.transport.close()
        await asyncio.sleep(0)
        assert not await answers_from_here(f"turn:127.0.0.1:{port}")  # refused: nobody listens any more
        assert not await answers_from_here(f"turn:127.0.0.1:{port}?transport=tcp")
        assert not await answers_from_here(f"turns:127.0.0.1:{port}")
        assert asyncio.all_tasks() == before

    _run(story())


def test_a_listening_tcp_port_is_there() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            assert await answers_from_here(f"turn:127.0.0.1:{port}?transport=tcp")
            assert await answers_from_here(f"turns:127.0.0.1:{port}?transport=tcp")

    _run(story())


@pytest.mark.parametrize("url", ["turn:[::1]:3478", "stun:", "http://a", "turn:no.such.name.invalid"])
def test_what_cannot_be_asked_is_not_there(url: str) -> None:
    async def story() -> None:
        assert not await answers_from_here(url)

    _run(story())


def test_only_what_answers_is_kept_and_findings_hold_for_a_while() -> None:
    async def story() -> None:
        asked: list[str] = []
        now, dead = 0.0, {"turn:a", "stun:c"}

        async def answers(url: str) -> bool:
            asked.append(url)
            return url not in dead

        servers = [{"urls": ["turn:a", "turn:b"], "username": "u", "credential": "c"}, {"urls": "stun:c"}]
        found = Reach(answers, clock=lambda: now)
        for _ in range(2):
            assert await found.only(servers) == [{"urls": ["turn:b"], "username": "u", "credential": "c"}]
        assert sorted(asked) == ["stun:c", "turn:a", "turn:b"]
        now, dead = DEAD_SECONDS, set()
        assert await found.only(servers) == [servers[0], {"urls": ["stun:c"]}]
        assert sorted(asked[3:]) == ["stun:c", "turn:a"]
        now = ALIVE_SECONDS
        await found.only(servers)
        assert asked[5:] == ["turn:b"]
        assert await found.only([]) == [] and not found._found

    _run(story())
