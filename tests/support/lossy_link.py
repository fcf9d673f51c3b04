"""A cable between two rooms that loses and delays datagrams, by a seed.

Each room has a TUN device; one thread carries packets between the two, drops some UDP ones and delays each other by a
time of its own, so that they overtake each other. TCP passes untouched: the page's words are not what is tested.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from support.netns import Room, ip

CLIENT, SERVER = "10.78.0.1", "10.78.0.2"
TUN_DEVICE = "/dev/net/tun"
SET_INTERFACE, TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
MOST_BYTES = 2048
UDP = 17


@dataclass
class Weather:
    """How bad the link is, changeable at any time, and what it did.

    Attributes:
        loss: share of datagrams that are dropped. jitter_seconds: each of the others is late by up to so much.
    """

    loss: float
    jitter_seconds: float
    seed: int = 1
    carried: int = 0
    dropped: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def delay_seconds(self, packet: bytes) -> float | None:
        """How late an IPv4 packet arrives; None where it does not."""
        if packet[9] != UDP:
            return 0.0
        lost, late = self._random.random() < self.loss, self._random.random() * self.jitter_seconds
        self.dropped += lost
        self.carried += not lost
        return None if lost else late


@dataclass(frozen=True)
class LossyLink:
    """Two rooms and the weather between them."""

    client: Room
    server: Room
    weather: Weather


def _device(room: Room, address: str, other: str) -> int:
    """A TUN device in a room; returns its file descriptor."""
    with room.inside():
        descriptor = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(descriptor, SET_INTERFACE, struct.pack("16sH22x", b"link0", TUN_WITHOUT_HEADER))
    ip(f"-n {room.name} address add {address} peer {other} dev link0")
    ip(f"-n {room.name} link set link0 up")
    return descriptor


class _Carrier:
    """The thread that carries packets from each device to the other."""

    def __init__(self, ends: tuple[int, int], weather: Weather) -> None:
        self._other = {ends[0]: ends[1], ends[1]: ends[0]}
        self._weather = weather
        self._late: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._stop_read, self._stop_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="lossy-link")
        self._thread.start()

    def _run(self) -> None:
        while True:
            wait = max(0.0, self._late[0][0] - time.monotonic()) if self._late else None
            readable, _, _ = select.select([*self._other, self._stop_read], [], [], wait)
            if self._stop_read in readable:
                return
            for end in readable:
                self._take(end)
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(self._late)
                with contextlib.suppress(OSError):
                    os.write(end, packet)

    def _take(self, end: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                packet = os.read(end, MOST_BYTES)
                delay = self._weather.delay_seconds(packet)
                if delay is not None:
                    self._number += 1
                    heapq.heappush(self._late, (time.monotonic() + delay, self._number, self._other[end], packet))

    def stop(self) -> None:
        os.write(self._stop_write, b"x")
        self._thread.join(10)
        for descriptor in (*self._other, self._stop_read, self._stop_write):
            os.close(descriptor)


@contextlib.contextmanager
def lossy_link(loss: float, jitter_seconds: float, seed: int = 1) -> Iterator[LossyLink]:
    """Two rooms with such a cable between them and nothing else."""
    with contextlib.ExitStack() as stack:
        rooms = [Room(role) for role in ("client", "server")]
        for room in rooms:
            stack.callback(room.remove)
        weather = Weather(loss, jitter_seconds, seed)
        ends = (_device(rooms[0], CLIENT, SERVER), _device(rooms[1], SERVER, CLIENT))
        stack.callback(_Carrier(ends, weather).stop)
        yield LossyLink(rooms[0], rooms[1], weather)
