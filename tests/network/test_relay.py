"""Two aiortc peers that no UDP joins find each other through a real coturn over TCP; without it they do not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from support.coturn import SECRET, coturn
from support.netns import MIDDLE_OF_CLIENT, MIDDLE_OF_SERVER, LoopInside, Rooms, needs_namespaces, three_rooms
from support.rtc_peer import RATE_HZ, Peer, tone

from personaplex_app.audio import Pcm
from personaplex_app.network import Network, SharedSecretTurn
from personaplex_app.web.turn import IceMinter, aiortc_configuration

pytestmark = needs_namespaces

CLIENT_HZ, SERVER_HZ = 440.0, 700.0
NEVER_SECONDS = 6.0


@pytest.fixture
def rooms() -> Iterator[Rooms]:
    with three_rooms() as rooms:
        yield rooms


async def _peer(url: str | None, hz: float) -> Peer:
    """A peer whose relay's credentials our own minter signed."""
    minter = IceMinter(Network(turn=SharedSecretTurn((url,), SECRET) if url else None))
    return Peer(aiortc_configuration(await minter.server()), tone(hz))


@contextmanager
def _joined(
    offering: tuple[LoopInside, str | None, float], answering: tuple[LoopInside, str | None, float]
) -> Iterator[tuple[Peer, Peer]]:
    """Two peers who exchanged offer and answer, each in a room of its own; the words between them go by hand."""
    with ExitStack() as stack:
        (near, near_url, near_hz), (far, far_url, far_hz) = offering, answering
        one, other = near.call(_peer(near_url, near_hz)), far.call(_peer(far_url, far_hz))
        stack.callback(lambda: near.call(one.close()))
        stack.callback(lambda: far.call(other.close()))
        near.call(one.accept(far.call(other.answer(near.call(one.offer())))))
        yield one, other


def _pitch(pcm: Pcm) -> float:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm))))
    return float(np.argmax(spectrum) * RATE_HZ / len(pcm))


@pytest.mark.parametrize("offers", ["client", "server"])
@pytest.mark.parametrize("relayed", ["client", "server", "both"])
def test_sound_flows_both_ways_over_tcp(rooms: Rooms, tmp_path: Path, relayed: str, offers: str) -> None:
    relay_address = MIDDLE_OF_CLIENT if relayed == "server" else MIDDLE_OF_SERVER
    with (
        coturn(rooms.middle, tmp_path, relay_address) as relay,
        rooms.client.loop() as near,
        rooms.server.loop() as far,
    ):
        client = (near, relay.of_client if relayed != "server" else None, CLIENT_HZ)
        server = (far, relay.of_server if relayed != "client" else None, SERVER_HZ)
        ends = (client, server) if offers == "client" else (server, client)
        with _joined(*ends) as peers:
            for (loop, _, _), (_, _, said_hz), peer in zip(ends, reversed(ends), peers, strict=True):
                assert loop.call(peer.settled(15.0)) == "connected"
                assert "relay" in peer.path()
                heard = loop.call(peer.heard_for(1.0, within=10.0))
                assert _pitch(heard[-RATE_HZ // 2 :]) == pytest.approx(said_hz, abs=3.0)
        log = relay.log.read_text(errors="replace")
        assert "ALLOCATE processed, success" in log


def test_without_a_relay_they_never_meet(rooms: Rooms) -> None:
    with (
        rooms.client.loop() as near,
        rooms.server.loop() as far,
        _joined((near, None, CLIENT_HZ), (far, None, SERVER_HZ)) as (client, server),
    ):
        assert near.call(client.settled(NEVER_SECONDS)) != "connected"
        assert far.call(server.settled(0.0)) != "connected"
        assert not client.heard and not server.heard


async def _relay_candidates(minter: IceMinter) -> list[str]:
    """Which relayed candidates a peer finds with the server's own ICE servers."""
    peer = Peer(aiortc_configuration(await minter.server()), tone(CLIENT_HZ))
    try:
        offer = await asyncio.wait_for(peer.offer(), 10)
    finally:
        await peer.close()
    return [line for line in offer.sdp.splitlines() if line.startswith("a=candidate") and "typ relay" in line]


def test_a_relay_refuses_what_another_secret_signed(rooms: Rooms, tmp_path: Path) -> None:
    with coturn(rooms.middle, tmp_path, MIDDLE_OF_SERVER) as relay, rooms.client.loop() as near:
        for secret, candidates in ((SECRET, 1), ("another secret", 0)):
            minter = IceMinter(Network(turn=SharedSecretTurn((relay.of_client,), secret)))
            assert len(near.call(_relay_candidates(minter))) == candidates


def test_where_udp_does_not_go_the_relay_is_used_over_tcp_and_nobody_waits(rooms: Rooms, tmp_path: Path) -> None:
    with coturn(rooms.middle, tmp_path, MIDDLE_OF_SERVER) as relay, rooms.client.loop() as near:
        urls = (f"turn:{MIDDLE_OF_CLIENT}:3478", "turn:192.0.2.1:3478?transport=tcp", relay.of_client)
        minter = IceMinter(Network(turn=SharedSecretTurn(urls, SECRET)))
        near.call(minter.server())
        began = time.monotonic()
        assert len(near.call(_relay_candidates(minter))) == 1
        assert time.monotonic() - began < 2.0  # aiortc would wait 5 s for a dead one
