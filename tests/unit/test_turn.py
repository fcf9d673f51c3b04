"""Minting relays: what the services answer, what happens when they do not, and renewal by a clock that we turn."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from aiortc.rtcicetransport import connection_kwargs

from personaplex_app.network import CloudflareTurn, FixedTurn, HubTurn, Network, SharedSecretTurn, TurnSource
from personaplex_app.web import turn
from personaplex_app.web.turn import QUIET_SECONDS, RETRY_SECONDS, SERVER_TTL_SECONDS, IceMinter, aiortc_configuration

STATIC = {"urls": ["stun:stun.example.org"]}
RELAY = {"urls": ["turn:r.example:3478?transport=udp"], "username": "u", "credential": "c"}
TOKEN = "hush-hush-token"
HUB, CLOUDFLARE = HubTurn(TOKEN), CloudflareTurn("a key/id", TOKEN)


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        awake = asyncio.Event()
        self._sleepers.append((self.now + seconds, awake))
        await awake.wait()

    def pass_by(self, seconds: float) -> None:
        """Moves on and wakes whoever is due."""
        self.now += seconds
        for until, awake in self._sleepers:
            if until <= self.now:
                awake.set()


class Service:
    """A local HTTP server that answers as it is told and notes what it was asked."""

    def __init__(self) -> None:
        self.status, self.body = 200, json.dumps({"iceServers": [RELAY]})
        self.silent = False
        self.asked: list[str] = []
        self.url = ""
        self._open: set[asyncio.Task[None]] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
                body = await reader.readexactly(int(length[0].split(":")[1]) if length else 0)
                self.asked.append(head + body.decode())
                if self.silent:
                    await asyncio.sleep(60)
                content = self.body.encode()
                writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
                await writer.drain()
        writer.close()

    async def close(self) -> None:
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)


@contextlib.asynccontextmanager
async def serving(source: TurnSource | None, clock: Clock | None = None) -> AsyncIterator[tuple[IceMinter, Service]]:
    """A minter that asks a local service."""
    service = Service()
    server = await asyncio.start_server(service.answer, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    clock = clock or Clock()
    minter = IceMinter(
        Network(ice=(STATIC,), turn=source),
        browser_ttl_seconds=120,
        hub_url=f"{service.url}/credentials",
        cloudflare_url=f"{service.url}/keys",
        wall=lambda: 1_000_000.5,
        clock=clock,
        sleep=clock.sleep,
        answers=_always,
    )
    try:
        yield minter, service
    finally:
        await minter.stop()
        server.close()
        await service.close()
        await server.wait_closed()


async def _always(url: str) -> bool:
    return True


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def settled(condition: Callable[[], bool]) -> None:
    """Lets the loop turn until the condition holds."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


def test_the_hub_is_asked_with_the_token_and_the_time_to_live() -> None:
    async def story() -> None:
        async with serving(HUB) as (minter, service):
            assert await minter.browser() == [STATIC, RELAY]
            assert service.asked[0].startswith("GET /credentials?ttl=120 HTTP/1.1\r\n")
            assert f"authorization: bearer {TOKEN}" in service.asked[0].lower()
            assert (minter.problem, minter.notice, minter.minted, minter.failed) == ("", "", 1, 0)

    run(story())


def test_cloudflare_is_asked_with_the_key_and_the_time_to_live() -> None:
    async def story() -> None:
        async with serving(CLOUDFLARE) as (minter, service):
            service.status = 201
            assert await minter.browser() == [STATIC, RELAY]
            head, body = service.asked[0].split("\r\n\r\n")
            assert head.startswith("POST /keys/a%20key%2Fid/credentials/generate-ice-servers HTTP/1.1\r\n")
            assert f"authorization: bearer {TOKEN}" in head.lower() and json.loads(body) == {"ttl": 120}

    run(story())


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, "{}", "refused HF_TOKEN (401)"),
        (403, "{}", "refused HF_TOKEN (403)"),
        (500, TOKEN, "answered with 500"),
        (302, "", "answered with 302"),
        (200, "{", "named no relay"),
        (200, "[" * 50_000, "named no relay"),
        (200, "[]", "named no relay"),
        (200, '{"iceServers": 7}', "named no relay"),
        (200, '{"iceServers": [{"urls": "stun:a"}, {"urls": "turn:a"}, 3]}', "named no relay"),
        (200, '{"iceServers": [{"urls": "turn:a:53", "username": "u", "credential": "c"}]}', "named no relay"),
    ],
)
def test_a_service_that_gives_none_leaves_the_static_servers_and_a_sentence(
    status: int, body: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with serving(HUB) as (minter, service):
            service.status, service.body = status, body
            assert await minter.browser() == [STATIC]
            assert said in minter.problem and "socket" in minter.problem and minter.notice == minter.problem
            assert (minter.minted, minter.failed) == (0, 1)
            assert TOKEN not in minter.problem + caplog.text

    with caplog.at_level(logging.DEBUG):
        run(story())


def test_a_refused_cloudflare_key_is_named() -> None:
    async def story() -> None:
        async with serving(CLOUDFLARE) as (minter, service):
            service.status = 401
            await minter.browser()
            assert "CLOUDFLARE_TURN_KEY_ID" in minter.problem and TOKEN not in minter.problem

    run(story())


def test_a_service_that_is_silent_or_away_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "ASK_SECONDS", 0.2)

    async def story() -> None:
        async with serving(HUB) as (minter, service):
            service.silent = True
            assert await minter.browser() == [STATIC]
            assert "did not answer within 0.2 s" in minter.problem
        away = IceMinter(Network(turn=HUB), hub_url=f"{service.url}/credentials")
        assert await away.browser() == [] and "could not be reached" in away.problem
        await away.stop()

    run(story())


@pytest.mark.parametrize("token", ["hush\nInjected: yes", "hush-ü", "hush\x00"])
def test_a_token_that_no_header_can_carry_is_never_sent(token: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with serving(HubTurn(token)) as (minter, service):
            assert await minter.browser() == [STATIC]
            assert "HF_TOKEN cannot be right" in minter.problem and "hush" not in minter.problem + caplog.text
            assert not service.asked

    with caplog.at_level(logging.DEBUG):
        run(story())


def test_after_a_failure_visitors_wait_for_nobody_for_a_while() -> None:
    async def story() -> None:
        clock = Clock()
        async with serving(HUB, clock) as (minter, service):
            service.status = 500
            for _ in range(3):
                assert await minter.browser() == [STATIC]
            assert len(service.asked) == 1
            service.status = 200
            clock.pass_by(QUIET_SECONDS)
            assert await minter.browser() == [STATIC, RELAY] and minter.problem == ""

    run(story())


def test_a_blocked_port_is_left_out_and_a_single_server_is_understood() -> None:
    async def story() -> None:
        async with serving(HUB) as (minter, service):
            urls = ["stun:s.example:53", "turn:r.example:53?transport=udp", "turns:r.example:5349?transport=tcp"]
            service.body = json.dumps({"iceServers": {**RELAY, "urls": urls, "junk": 1}})
            assert await minter.browser() == [STATIC, {**RELAY, "urls": urls[2:]}]

    run(story())


def test_coturn_s_secret_signs_a_name_that_ends() -> None:
    async def story() -> None:
        async with serving(SharedSecretTurn(("turn:c.example",), "the secret")) as (minter, service):
            first, second = (await minter.browser())[1], (await minter.browser())[1]
            own = (await minter.server())[1]
            assert not service.asked and len({first["username"], second["username"]}) == 2
            for server, until in ((first, 1_000_120), (own, 1_000_000 + SERVER_TTL_SECONDS)):
                assert server["urls"] == ["turn:c.example"] and server["username"].split(":")[0] == str(until)
                digest = hmac.digest(b"the secret", server["username"].encode(), hashlib.sha1)
                assert base64.b64decode(server["credential"]) == digest

    run(story())


def test_lasting_servers_go_to_both_ends_as_they_are() -> None:
    async def story() -> None:
        fixed = {"urls": ["turn:c.example"], "username": "u", "credential": "p"}
        async with serving(FixedTurn(("turn:c.example",), "u", "p")) as (minter, _):
            assert await minter.browser() == await minter.server() == [STATIC, fixed]
        async with serving(None) as (minter, _):
            assert await minter.browser() == await minter.server() == [STATIC]
            assert (minter.problem, minter.minted, minter.failed) == ("", 0, 0)

    run(story())


def test_the_server_s_own_are_kept_and_renewed_before_they_expire() -> None:
    async def story() -> None:
        clock = Clock()
        async with serving(HUB, clock) as (minter, service):
            for _ in range(3):
                assert await minter.server() == [STATIC, RELAY]
            assert len(service.asked) == 1 and f"ttl={SERVER_TTL_SECONDS}" in service.asked[0]
            renewed = {**RELAY, "username": "renewed"}
            service.body = json.dumps({"iceServers": [renewed]})
            clock.pass_by(0.79 * SERVER_TTL_SECONDS)
            await asyncio.sleep(0.02)
            assert await minter.server() == [STATIC, RELAY]
            clock.pass_by(0.02 * SERVER_TTL_SECONDS)
            await settled(lambda: len(service.asked) == 2 and minter.minted == 2)
            assert await minter.server() == [STATIC, renewed]

    run(story())


def test_a_failed_renewal_keeps_the_old_until_it_expires(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        clock = Clock()
        async with serving(HUB, clock) as (minter, service):
            minter.start()
            minter.start()
            assert await minter.server() == [STATIC, RELAY]
            service.status = 500
            clock.pass_by(0.8 * SERVER_TTL_SECONDS)
            for failed in range(1, 5):
                await settled(lambda failed=failed: minter.failed == failed)
                assert await minter.server() == [STATIC, RELAY]
                clock.pass_by(RETRY_SECONDS)
            warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
            assert len(warnings) == 1
            clock.pass_by(0.2 * SERVER_TTL_SECONDS)
            assert await minter.server() == [STATIC] and minter.problem
            await settled(lambda: minter.failed == 5)
            service.status = 200
            clock.pass_by(RETRY_SECONDS)
            await settled(lambda: minter.minted == 2)
            assert await minter.server() == [STATIC, RELAY] and minter.problem == ""

    run(story())


def test_stopping_leaves_nothing_behind_and_may_be_repeated() -> None:
    async def story() -> None:
        before = asyncio.all_tasks()
        async with serving(HUB) as (minter, service):
            service.silent = True
            minter.start()
            await settled(lambda: len(service.asked) == 1)
            await minter.stop()
            await minter.stop()
            assert not [task for task in asyncio.all_tasks() - before if task.get_name() == "turn-renewal"]
        assert asyncio.all_tasks() == before

    run(story())


def _aiortc(*servers: dict[str, Any]) -> dict[str, Any]:
    return connection_kwargs(aiortc_configuration(servers).iceServers)


def test_aiortc_is_told_of_no_server_rather_than_left_to_its_own() -> None:
    assert aiortc_configuration([]).iceServers == []


def _relay(*urls: str) -> dict[str, Any]:
    return {"urls": list(urls), "username": "u", "credential": "c"}


@pytest.mark.parametrize(
    ("urls", "host", "transport", "tls"),
    [
        (("turn:a",), ("a", 3478), "udp", False),
        (("turns:a", "turn:b?transport=tcp", "turn:c?transport=udp"), ("c", 3478), "udp", False),
        (("turns:a", "turn:b:443?transport=tcp"), ("b", 443), "tcp", False),
        (("turns:a:443?transport=tcp",), ("a", 443), "tcp", True),
        (("turns:a?transport=udp", "turn:[::1]:3478", "turn:b?transport=sctp", "turn:d"), ("d", 3478), "udp", False),
    ],
)
def test_aiortc_gets_the_one_relay_that_suits_it(
    urls: tuple[str, ...], host: tuple[str, int], transport: str, tls: bool
) -> None:
    found = _aiortc(_relay(*urls))
    assert (found["turn_server"], found["turn_transport"], found["turn_ssl"]) == (host, transport, tls)
    assert (found["turn_username"], found["turn_password"]) == ("u", "c")


def test_aiortc_gets_one_stun_server_beside_it() -> None:
    found = _aiortc({"urls": ["stuns:x", "stun:y", "stun:z"]}, _relay("turn:a"), {"urls": "stun:z?transport=udp"})
    assert found["stun_server"] == ("y", 3478) and found["turn_server"] == ("a", 3478)
    assert _aiortc(_relay("turns:a?transport=udp")) == {}
