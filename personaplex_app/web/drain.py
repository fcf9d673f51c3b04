"""Ending well: the first SIGTERM or Ctrl-C sees everybody out, the second ends the process at once.

While the server starts, the first one ends it at once. In: signals, on the main thread; a front desk, on the server's
event loop. Out: the moment at which nobody talks any more or the time is up.
Must not know: gradio, the engine, how talks are told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

log = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK_SECONDS = 0.1
TOLD_SECONDS = 0.02
STUCK_SECONDS = 5.0  # an event loop that is so much later than the time it was given will not come back
FORCED_EXIT_CODE = 128  # and the signal's number, as shells have it
UNUSED_EXIT_CODES = {signal.SIGTERM: 0, signal.SIGINT: 130}  # of a process that nobody has come to yet


class DeskStatus(Protocol):
    """How many talk."""

    @property
    def talking(self) -> int: ...


class Desk(Protocol):
    """What draining needs of a front desk; all of it on the server's event loop."""

    @property
    def status(self) -> DeskStatus: ...

    def drain(self, sentence: str, seconds: float) -> None:
        """Lets nobody in any more; tells those who wait, and those who talk how long they have."""


class Telling(Protocol):
    """How many clients are being told of their talk, its end included."""

    @property
    def status(self) -> DeskStatus: ...

    @property
    def telling(self) -> int: ...


def end_on_sigterm() -> None:
    """Until there is anybody to see out, SIGTERM just ends; the first process of a container would not hear it else."""
    signal.signal(signal.SIGTERM, lambda caught, frame: sys.exit(0))


@contextlib.contextmanager
def ending_at_once(leave: Callable[[int], object] = os._exit) -> Iterator[None]:
    """While inside, SIGTERM and Ctrl-C end the process, though the main thread be in the midst of a download or a load.

    Python runs a signal's handler on the main thread only, and not before the library that works there comes back;
    so another thread listens. Main thread only. Args: leave: ends the process, with the exit code.
    """
    told, tells = socket.socketpair()
    tells.setblocking(False)
    before = {number: signal.signal(number, lambda caught, frame: None) for number in SIGNALS}
    wakes = signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_leave_when_told, args=(told, leave), name="signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakes)
        for number, handler in before.items():
            signal.signal(number, handler)
        tells.close()
        thread.join()
        told.close()


def _leave_when_told(told: socket.socket, leave: Callable[[int], object]) -> None:
    """Reads the numbers of signals until there are no more to come."""
    while numbers := told.recv(1):
        if numbers[0] in UNUSED_EXIT_CODES:
            leave(UNUSED_EXIT_CODES[signal.Signals(numbers[0])])


def closing_sentence(seconds: float) -> str:
    """What newcomers and those who talk read while the house empties."""
    left = f"talks that run may go on for {seconds:.0f} s" if seconds >= 1 else "talks that run end now"
    return f"The server is about to stop: {left}, new ones cannot begin. Try again in a few minutes."


async def see_out(desk: Desk, seconds: float) -> bool:
    """Closes the door, then waits until the last talk is over; False where somebody still talks when time is up."""
    desk.drain(closing_sentence(seconds), seconds)
    return await until_quiet(desk, seconds)


async def until_quiet(desk: Desk, seconds: float) -> bool:
    """Waits until nobody talks; False where somebody still does after `seconds`."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while desk.status.talking and loop.time() < until:
        await asyncio.sleep(LOOK_SECONDS)
    return not desk.status.talking


async def until_told(desk: Telling, seconds: float) -> None:
    """Waits until everybody whose talk is over was told so, for `seconds` at most: some clients do not read."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (desk.status.talking or desk.telling) and loop.time() < until:
        await asyncio.sleep(TOLD_SECONDS)


def serve_until_told(
    loop: asyncio.AbstractEventLoop, desk: Desk, seconds: float, leave: Callable[[int], object] = os._exit
) -> None:
    """Blocks the main thread until a signal came and the house is empty, or `seconds` after the signal.

    Args:
        loop: the server's, running in another thread. leave: ends the process, with the exit code of a second signal.
    """
    with _signals() as events:
        _note(events.get())
        seeing_out = asyncio.run_coroutine_threadsafe(see_out(desk, seconds), loop)
        seeing_out.add_done_callback(lambda done: events.put(None))
        try:
            second = events.get(timeout=seconds + STUCK_SECONDS)
        except queue.Empty:
            log.error("The event loop is stuck; the server ends without its goodbyes.")
            return
        if second is not None:
            log.warning("A second signal: the server ends at once.")
            leave(FORCED_EXIT_CODE + second)
        elif not seeing_out.result():
            log.warning("Somebody still talks, and the time is up.")


def _note(number: int | None) -> None:
    name = signal.Signals(number).name if number else ""
    log.info("%s: nobody is let in any more; the server ends when the last talk is over. Once more ends it now.", name)


@contextlib.contextmanager
def _signals() -> Iterator[queue.SimpleQueue[int | None]]:
    """While inside, signals go into this queue, which a signal handler may fill while its reader waits."""
    events: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    before = {number: signal.signal(number, lambda caught, frame: events.put(caught)) for number in SIGNALS}
    try:
        yield events
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
