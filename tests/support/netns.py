"""Network namespaces: rooms without a way between them but the one that a test builds.

Three rooms stand in a row, client, middle, server; the middle forwards nothing, so that only what listens in it joins
the two. A thread enters a room, and so does whatever it starts: threads, event loops, subprocesses, a browser.
Needs root and `ip` of iproute2.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support.networks import enter

T = TypeVar("T")

CALL_SECONDS = 30.0
CLIENT, MIDDLE_OF_CLIENT = "10.77.1.2", "10.77.1.1"
SERVER, MIDDLE_OF_SERVER = "10.77.2.2", "10.77.2.1"
CLIENT_LINK, SERVER_LINK = "10.77.1.0/24", "10.77.2.0/24"
_numbers = itertools.count()


def _why_not() -> str:
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip"):
        return "network namespaces need the command ip (Debian: apt-get install iproute2)"
    return ""


needs_namespaces = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "nothing is missing")


def ip(words: str) -> None:
    """Runs `ip`; fails with what it says."""
    done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {words}: {done.stderr.strip()}"


class Room:
    """One namespace, with nothing but a loopback in it at first."""

    def __init__(self, role: str) -> None:
        self.name = f"talk-{os.getpid()}-{next(_numbers)}-{role}"
        ip(f"netns add {self.name}")
        ip(f"-n {self.name} link set lo up")
        with self.inside():
            self._set("ipv4/ip_forward", "0")
            for which in ("all", "default"):
                self._set(f"ipv6/conf/{which}/disable_ipv6", "1")

    def _set(self, name: str, value: str) -> None:
        path = Path("/proc/sys/net") / name
        if path.exists():
            path.write_text(value)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """The calling thread is in here; whatever it starts meanwhile stays in here."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        door = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            enter(door)
            try:
                yield
            finally:
                enter(home)
        finally:
            os.close(door)
            os.close(home)

    @contextlib.contextmanager
    def loop(self) -> Iterator[LoopInside]:
        """An event loop in a thread of its own, in here."""
        inside = LoopInside(self)
        try:
            yield inside
        finally:
            inside.close()

    def remove(self) -> None:
        """Takes its interfaces with it."""
        ip(f"netns delete {self.name}")


class LoopInside:
    """Runs coroutines in a room and hands their results back."""

    def __init__(self, room: Room) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(room,), name=room.name)
        self._thread.start()

    def _run(self, room: Room) -> None:
        with room.inside():
            asyncio.set_event_loop(self._loop)
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T], seconds: float = CALL_SECONDS) -> T:
        """Waits for a coroutine that runs in there; raises TimeoutError after so long."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(seconds)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


@dataclass(frozen=True)
class Rooms:
    """Three rooms in a row."""

    client: Room
    middle: Room
    server: Room


@contextlib.contextmanager
def three_rooms() -> Iterator[Rooms]:
    """Client and server, each joined to the middle by a cable, and to nothing else."""
    made: list[Room] = []
    try:
        for role in ("client", "middle", "server"):
            made.append(Room(role))
        rooms = Rooms(*made)
        _cable(rooms.client, CLIENT, rooms.middle, MIDDLE_OF_CLIENT)
        _cable(rooms.server, SERVER, rooms.middle, MIDDLE_OF_SERVER)
        yield rooms
    finally:
        for room in made:
            room.remove()


def _cable(one: Room, one_address: str, other: Room, other_address: str) -> None:
    number = next(_numbers)
    ends = ((one, f"near{number}", one_address), (other, f"far{number}", other_address))
    ip(f"link add near{number} netns {one.name} type veth peer name far{number} netns {other.name}")
    for room, interface, address in ends:
        ip(f"-n {room.name} address add {address}/24 dev {interface}")
        ip(f"-n {room.name} link set {interface} up")


@contextlib.contextmanager
def forwarded(middle: Room, port: int) -> Iterator[str]:
    """Carries TCP from the middle's port to the same one of the server; yields the address that the client sees."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(SERVER, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    with middle.loop() as loop:
        listener = loop.call(asyncio.start_server(carry, MIDDLE_OF_CLIENT, port))
        yield f"{MIDDLE_OF_CLIENT}:{port}"
        listener.close()
