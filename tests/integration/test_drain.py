"""A signal empties the house: nobody is let in any more, who talks may finish, and the process ends well."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from personaplex_app.web import drain
from personaplex_app.web.drain import closing_sentence, ending_at_once, see_out, serve_until_told, until_told


@dataclass
class FakeStatus:
    talking: int = 0


@dataclass
class FakeDesk:
    """Counts talks, and takes note of what it was told, on which thread."""

    status: FakeStatus = field(default_factory=FakeStatus)
    telling: int = 0
    told: list[tuple[str, float]] = field(default_factory=list)
    threads: list[str] = field(default_factory=list)

    def drain(self, sentence: str, seconds: float) -> None:
        self.told.append((sentence, seconds))
        self.threads.append(threading.current_thread().name)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread of its own, as the server's does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="server", daemon=True)
    thread.start()
    yield loop
    asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextlib.contextmanager
def later(*steps: tuple[float, Callable[[], object]]) -> Iterator[float]:
    """Does each step so many seconds after the one before, from another thread; when that began."""

    def go() -> None:
        for seconds, step in steps:
            time.sleep(seconds)
            step()

    thread = threading.Thread(target=go, daemon=True)
    began = time.monotonic()
    thread.start()
    yield began
    thread.join(5)


def kill(number: int = signal.SIGTERM) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def waited(loop: asyncio.AbstractEventLoop, desk: FakeDesk, seconds: float, began: float, **options: Any) -> float:
    """How long after `began` the main thread was let go."""
    serve_until_told(loop, desk, seconds, **options)
    return time.monotonic() - began


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_empty_house_closes_at_once(loop: asyncio.AbstractEventLoop, number: int) -> None:
    desk = FakeDesk()
    with later((0.2, kill(number))) as began:
        assert 0.2 <= waited(loop, desk, 30.0, began) < 2.0
    assert desk.told == [(closing_sentence(30.0), 30.0)]
    assert desk.threads == ["server"], "the desk lives on the event loop"


def test_the_house_closes_when_the_last_talk_is_over(loop: asyncio.AbstractEventLoop) -> None:
    desk = FakeDesk(FakeStatus(talking=2))

    def hang_up() -> None:
        desk.status.talking -= 1

    with later((0.1, kill()), (0.4, hang_up), (0.4, hang_up)) as began:
        assert 0.9 <= waited(loop, desk, 30.0, began) < 3.0


def test_who_talks_on_holds_the_house_up_for_so_long_and_no_longer(loop: asyncio.AbstractEventLoop) -> None:
    with later((0.1, kill())) as began:
        assert 0.6 <= waited(loop, FakeDesk(FakeStatus(talking=1)), 0.5, began) < 3.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(loop: asyncio.AbstractEventLoop, number: int) -> None:
    codes: list[int] = []
    with later((0.1, kill()), (0.3, kill(number))) as began:
        assert waited(loop, FakeDesk(FakeStatus(talking=1)), 30.0, began, leave=codes.append) < 3.0
    assert codes == [128 + number]


def test_a_loop_that_is_stuck_does_not_hold_the_process(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "STUCK_SECONDS", 0.3)
    free = threading.Event()
    loop.call_soon_threadsafe(free.wait)
    with later((0.1, kill())) as began:
        assert waited(loop, FakeDesk(), 0.2, began) < 3.0
    free.set()


def test_the_signals_are_given_back(loop: asyncio.AbstractEventLoop) -> None:
    before = [signal.getsignal(number) for number in drain.SIGNALS]
    with later((0.1, kill())) as began:
        waited(loop, FakeDesk(), 1.0, began)
    assert [signal.getsignal(number) for number in drain.SIGNALS] == before


def test_it_says_whether_everybody_left_in_time() -> None:
    assert asyncio.run(see_out(FakeDesk(), 5.0))
    assert not asyncio.run(see_out(FakeDesk(FakeStatus(talking=1)), 0.0))


def test_the_sentence_says_how_long() -> None:
    assert "may go on for 30 s" in closing_sentence(30.0) and "end now" in closing_sentence(0.0)


# While the server starts.


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_is_heard_while_the_main_thread_is_busy_in_c(number: int, code: int) -> None:
    left: list[tuple[float, int]] = []
    before = [signal.getsignal(one) for one in drain.SIGNALS]
    with ending_at_once(lambda code: left.append((time.monotonic(), code))):
        with later((0.1, lambda: os.kill(os.getpid(), number))):
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000)  # half a second, and no signal interrupts it
            came_back = time.monotonic()
        for _ in range(100):
            time.sleep(0.0 if left else 0.01)
    assert [told for _, told in left] == [code] and left[0][0] < came_back, "not only when it has come back"
    assert [signal.getsignal(one) for one in drain.SIGNALS] == before and signal.set_wakeup_fd(-1) == -1


def test_other_signals_end_nothing() -> None:
    left: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda caught, frame: None)
    try:
        with ending_at_once(left.append):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.05)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert left == []


def test_the_last_words_are_waited_for_and_who_does_not_read_them_is_not() -> None:
    async def story() -> None:
        desk = FakeDesk(telling=1)
        waiting = asyncio.create_task(until_told(desk, 20.0))
        await asyncio.sleep(0.1)
        assert not waiting.done(), "no talk is left, but somebody does not know yet"
        desk.telling = 0
        await asyncio.wait_for(waiting, 10)
        desk.telling = 1
        await asyncio.wait_for(until_told(desk, 0.1), 10)

    asyncio.run(story())
