"""Mints the STUN and TURN servers of a talk: short-lived ones for each visitor, renewed ones for this server.

In: a `Network`. Out: lists of ICE servers as browsers write them, and aiortc's form of them. Nothing here raises to a
caller: without a relay the lists hold what is static, and `problem` says why. No token gets into a sentence or a log.
Must not know: FastRTC, tickets, the page.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import quote

import httpx
from aiortc import RTCConfiguration, RTCIceServer
from aiortc.rtcicetransport import parse_stun_turn_uri

from personaplex_app.network import (
    CLOUDFLARE_ID,
    CLOUDFLARE_TOKEN,
    CloudflareTurn,
    FixedTurn,
    HubTurn,
    IceServer,
    Network,
    SharedSecretTurn,
    is_ice_server,
    lists_turn,
    relay_notice,
    urls_of,
)
from personaplex_app.web.reach import Reach

log = logging.getLogger(__name__)

# FastRTC asks turn.fastrtc.org, a name whose zone is gone: whoever takes it over would be handed the token.
HUB_URL = "https://fastrtc-turn-service.hf.space/credentials"
CLOUDFLARE_URL = "https://rtc.live.cloudflare.com/v1/turn/keys"
ASK_SECONDS = 5.0
SERVER_TTL_SECONDS = 86_400
RENEW_AT = 0.8  # of the time to live
RETRY_SECONDS = 60.0
QUIET_SECONDS = 15.0  # after a failure visitors are not kept waiting for another
BLOCKED_PORT = 53  # Cloudflare lists it, browsers block it and wait for a time-out
REFUSED = (401, 403)
TRANSPORTS = {("turn", "udp"): 0, ("turn", "tcp"): 1, ("turns", "tcp"): 2}


class IceMinter:
    """Gives both ends of a talk their ICE servers.

    Args:
        browser_ttl_seconds: how long a visitor's credentials hold; a talk must fit in.
        hub_url, cloudflare_url: who is asked. wall, clock, sleep: epoch seconds, steady seconds, and how to wait.
        answers: whether a server answers from here.

    Attributes:
        problem: why there is no relay right now, a sentence; empty where nothing is wrong. minted, failed: counts.
    """

    def __init__(
        self,
        network: Network,
        browser_ttl_seconds: int = 3600,
        *,
        hub_url: str = HUB_URL,
        cloudflare_url: str = CLOUDFLARE_URL,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        answers: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        self._network = network
        self._browser_ttl_seconds = browser_ttl_seconds
        self._hub_url, self._cloudflare_url = hub_url, cloudflare_url
        self._wall, self._clock, self._sleep = wall, clock, sleep
        self._reach = Reach(answers, clock)
        self._client: httpx.AsyncClient | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._own: list[IceServer] = []
        self._own_until = self._quiet_until = -float("inf")
        self.problem = ""
        self.minted = self.failed = 0

    @property
    def notice(self) -> str:
        """What a visitor should know before the click; empty where a relay is there or none is needed."""
        return self.problem or relay_notice(self._network)

    async def browser(self, ttl_seconds: int | None = None) -> list[IceServer]:
        """The servers for one visitor, never older than this call; they hold for a talk, or for so long."""
        relay: list[IceServer] = []
        if not self._asks or self._clock() >= self._quiet_until:
            relay = await self._mint(ttl_seconds or self._browser_ttl_seconds) or []
        return [*self._network.ice, *relay]

    async def server(self) -> list[IceServer]:
        """This server's own, those that answer; they hold for a talk that begins now. Begins the renewal if need be."""
        if self._asks:
            self.start()
            await self._tried.wait()
            relay = self._own if self._clock() < self._own_until else []
        else:
            relay = await self._mint(SERVER_TTL_SECONDS) or []
        return await self._reach.only([*self._network.ice, *relay])

    def start(self) -> None:
        """Begins to mint and renew the server's own servers; call it inside the event loop."""
        if self._asks and self._renewal is None:
            self._renewal = asyncio.create_task(self._renew(), name="turn-renewal")

    async def stop(self) -> None:
        """Ends the renewal and its connections."""
        renewal, self._renewal = self._renewal, None
        client, self._client = self._client, None
        if renewal is not None:
            renewal.cancel()
            await asyncio.wait([renewal])
        if client is not None:
            await client.aclose()

    @property
    def _asks(self) -> bool:
        """Whether somebody else mints for us."""
        return isinstance(self._network.turn, HubTurn | CloudflareTurn)

    async def _renew(self) -> None:
        while True:
            asked_at = self._clock()
            minted = await self._mint(SERVER_TTL_SECONDS)
            if minted is not None:
                self._own, self._own_until = minted, asked_at + SERVER_TTL_SECONDS
            self._tried.set()
            await self._sleep(SERVER_TTL_SECONDS * RENEW_AT if minted is not None else RETRY_SECONDS)

    async def _mint(self, ttl_seconds: int) -> list[IceServer] | None:
        """Relays that hold for so long; None, and `problem` says why, where nobody gives any."""
        try:
            servers = await self._from_source(ttl_seconds)
        except _NoCredentials as error:
            self._note_failure(error.reason)
            return None
        except Exception as error:
            # Not the error's own words, they can quote the token.
            self._note_failure(f"{self._service} failed ({type(error).__name__})")
            return None
        if self.problem:
            log.info("The TURN relay is there again.")
        self.problem, self._quiet_until = "", -float("inf")
        self.minted += bool(servers)
        return servers

    async def _from_source(self, ttl_seconds: int) -> list[IceServer]:
        source = self._network.turn
        match source:
            case None:
                return []
            case FixedTurn(urls, user, password):
                return [{"urls": list(urls), "username": user, "credential": password}]
            case SharedSecretTurn(urls, secret):
                return [{"urls": list(urls), **_signed(secret, int(self._wall()) + ttl_seconds)}]
            case HubTurn(token):
                return await self._ask("GET", self._hub_url, token, params={"ttl": ttl_seconds})
            case CloudflareTurn(key_id, token):
                url = f"{self._cloudflare_url}/{quote(key_id, safe='')}/credentials/generate-ice-servers"
                return await self._ask("POST", url, token, json={"ttl": ttl_seconds})

    async def _ask(self, method: str, url: str, token: str, **content: Any) -> list[IceServer]:
        if not (token.isascii() and token.isprintable()):
            raise _NoCredentials(f"{self._credentials} cannot be right: no token has such characters")
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=ASK_SECONDS)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                headers = {"Authorization": f"Bearer {token}"}
                answer = await self._client.request(method, url, headers=headers, **content)
        except (TimeoutError, httpx.TimeoutException):
            raise _NoCredentials(f"{self._service} did not answer within {ASK_SECONDS:g} s") from None
        except httpx.TransportError:
            raise _NoCredentials(f"{self._service} could not be reached") from None
        if answer.status_code in REFUSED:
            raise _NoCredentials(f"{self._service} refused {self._credentials} ({answer.status_code})")
        if not answer.is_success:
            raise _NoCredentials(f"{self._service} answered with {answer.status_code}")
        try:
            return _relays_of(answer.json())
        except (ValueError, RecursionError):
            raise _NoCredentials(f"{self._service} named no relay in its answer") from None

    @property
    def _service(self) -> str:
        return "Cloudflare" if isinstance(self._network.turn, CloudflareTurn) else "Hugging Face's TURN service"

    @property
    def _credentials(self) -> str:
        cloudflare = isinstance(self._network.turn, CloudflareTurn)
        return f"{CLOUDFLARE_ID} and {CLOUDFLARE_TOKEN}" if cloudflare else "HF_TOKEN"

    def _note_failure(self, reason: str) -> None:
        problem = (
            f"No TURN relay right now: {reason}. Where a direct connection (WebRTC) fails, the talk goes on by itself "
            "over this page's own socket."
        )
        if problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
        self.failed += 1
        self._quiet_until = self._clock() + QUIET_SECONDS


class _NoCredentials(Exception):
    """Nobody gave a relay; the reason goes on the page."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _signed(secret: str, until: int) -> dict[str, str]:
    """A name that says when it ends, and its signature: what coturn's `static-auth-secret` checks."""
    name = f"{until}:{secrets.token_hex(8)}"
    digest = hmac.new(secret.encode(), name.encode(), hashlib.sha1).digest()
    return {"username": name, "credential": base64.b64encode(digest).decode()}


def _relays_of(answer: Any) -> list[IceServer]:
    """The usable ICE servers of an answer, a list or a single one; raises ValueError where none is a relay."""
    listed = answer.get("iceServers") if isinstance(answer, dict) else None
    listed = [listed] if isinstance(listed, dict) else listed
    servers = []
    for item in listed if isinstance(listed, list) else []:
        if not is_ice_server(item):
            continue
        urls = [url for url in urls_of(item) if not _is_blocked(url)]
        if urls:
            servers.append({**{key: item[key] for key in ("username", "credential") if key in item}, "urls": urls})
    if not lists_turn(servers):
        raise ValueError("no relay")
    return servers


def _is_blocked(url: str) -> bool:
    return url.partition("?")[0].endswith(f":{BLOCKED_PORT}")


def aiortc_configuration(servers: Iterable[IceServer]) -> RTCConfiguration:
    """aiortc's form, with at most one STUN and one TURN server, which is all that it takes.

    Of several relays UDP wins over TCP, and TCP over TLS: where this machine cannot send UDP, list only the others.
    With no server at all aiortc must be told so, else it asks one on the internet.
    """
    stun: RTCIceServer | None = None
    turn: tuple[int, RTCIceServer] | None = None
    for server in servers:
        for url in urls_of(server):
            with contextlib.suppress(ValueError):  # addresses that aiortc cannot read, IPv6 ones
                scheme, transport = (parsed := parse_stun_turn_uri(url))["scheme"], parsed.get("transport")
                rank = TRANSPORTS.get((scheme, transport))
                if scheme == "stun":
                    stun = stun or RTCIceServer(url)
                elif rank is not None and (turn is None or rank < turn[0]):
                    turn = rank, RTCIceServer(url, username=server["username"], credential=server["credential"])
    return RTCConfiguration([*([stun] if stun else []), *([turn[1]] if turn else [])])
