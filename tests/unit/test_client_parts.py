"""The client's small pure parts: addresses, cookies, the schedule, the ear's timeline, the mailbox."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from personaplex_app.client.address import parse_address, parse_login
from personaplex_app.client.cookies import Cookies
from personaplex_app.client.mailbox import Mailbox
from personaplex_app.client.pace import Pace
from personaplex_app.client.timeline import Timeline
from personaplex_app.errors import InvalidInput


@pytest.mark.parametrize(
    ("url", "page", "socket"),
    [
        ("http://127.0.0.1:7860", "http://127.0.0.1:7860", "ws://127.0.0.1:7860/talk/socket"),
        ("https://you-space.hf.space/", "https://you-space.hf.space", "wss://you-space.hf.space/talk/socket"),
        (" wss://host/proxy/8/?x=1#y ", "https://host/proxy/8", "wss://host/proxy/8/talk/socket"),
        ("ws://[::1]:80", "http://[::1]:80", "ws://[::1]:80/talk/socket"),
    ],
)
def test_addresses(url: str, page: str, socket: str) -> None:
    address = parse_address(url)
    assert (address.page, address.socket) == (page, socket)


@pytest.mark.parametrize("url", ["", "localhost:7860", "127.0.0.1", "ftp://a", "http://", "http://a:b", "http://[a"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidInput, match="is no address"):
        parse_address(url)


def test_a_password_in_the_address_is_not_used() -> None:
    with pytest.raises(InvalidInput, match="apart from the address"):
        parse_address("http://me:secret@host")


def test_logins() -> None:
    assert parse_login(None) is None
    assert parse_login("me:a:b") == ("me", "a:b")
    for text in ("me", ":x", "me:"):
        with pytest.raises(InvalidInput, match="USER:PASS"):
            parse_login(text)


def test_cookies_go_back_to_where_they_came_from() -> None:
    plain, secure = (Cookies(parse_address(f"{scheme}://host.example/sub")) for scheme in ("http", "https"))
    for jar in (plain, secure):
        assert jar.header() is None
        jar.keep(["a=1; Path=/; HttpOnly", "b=2; Path=/; Secure; SameSite=None", "c=3; Path=/elsewhere"])
    assert plain.header() == "a=1"
    assert secure.header() == "a=1; b=2"


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_lateness_is_counted_and_never_adds_up() -> None:
    clock = Clock()
    pace = Pace(0.02, clock)
    assert pace.take() == 0.0
    clock.now += 0.11
    assert pace.take() == pytest.approx(0.09)
    assert pace.take() == pytest.approx(0.07)
    assert pace.due == pytest.approx(50.06)
    assert (pace.late, pace.pieces) == (2, 3) and pace.worst_seconds == pytest.approx(0.09)


def test_a_pause_is_not_made_up_for() -> None:
    clock = Clock()
    pace = Pace(0.02, clock)
    clock.now += 0.9
    pace.resume()
    assert pace.due == 50.0
    clock.now += 9.0
    pace.resume()
    assert pace.due == clock.now and pace.take() == 0.0


def ones(count: int) -> np.ndarray:
    return np.ones(count, dtype=np.float32)


def test_the_timeline_is_the_call_s() -> None:
    timeline = Timeline()
    timeline.place(ones(2400), 0.1)
    timeline.place(ones(2400), 0.15)  # early: it plays behind the first
    timeline.place(ones(2400), 0.5)
    track = timeline.track(1.0)
    assert len(track) == 24_000
    loud = np.flatnonzero(np.diff(np.pad(track, 1)))
    assert loud.tolist() == [2400, 7200, 12_000, 14_400]
    assert timeline.gaps == 1 and timeline.gap_seconds == pytest.approx(0.2)


def test_a_cushion_hides_what_comes_late() -> None:
    timeline = Timeline(cushion_seconds=0.05)
    for number in range(10):
        timeline.place(ones(1920), 0.08 * number + 0.04 * (number % 2))
    assert timeline.gaps == 0
    assert len(timeline.track()) == 1200 + 10 * 1920 and timeline.track()[1200:].all()
    assert len(Timeline().track(0.5)) == 12_000


def test_what_comes_in_a_heap_is_not_late_for_ever() -> None:
    timeline = Timeline(cushion_seconds=0.04)
    hush, word = np.zeros(1920, dtype=np.float32), ones(1920)
    for number in range(25):
        timeline.place(word if number == 12 else hush, 0.08 * number if number < 5 else max(1.0, 0.08 * number))
    assert timeline.gaps == 1 and timeline.gap_seconds == pytest.approx(0.6)
    assert timeline.shed_seconds == pytest.approx(0.56), "all of the silence that came too late but what may wait"
    track = timeline.track()
    assert track.sum() == 1920, "the word is kept"
    assert len(track) / 24_000 <= 25 * 0.08 + 0.1


def test_with_too_much_before_it_even_a_word_is_left_out() -> None:
    timeline = Timeline(most_waiting_seconds=0.2)
    for _ in range(10):
        timeline.place(ones(1920), 0.0)
    assert timeline.seconds == pytest.approx(0.24) and timeline.shed_seconds == pytest.approx(0.56)


def test_a_mailbox_forgets_the_oldest_and_ends() -> None:
    async def story() -> None:
        box: Mailbox[int] = Mailbox(2)
        for number in range(4):
            box.put(number)
        assert box.dropped == 2
        box.close()
        assert [await box.get() for _ in range(3)] == [2, 3, None]
        other: Mailbox[int] = Mailbox(2)
        waiting = [asyncio.create_task(other.get()) for _ in range(2)]
        await asyncio.sleep(0)
        other.put(7)
        other.close()
        assert sorted(str(item) for item in await asyncio.gather(*waiting)) == ["7", "None"]

    asyncio.run(story())
