"""The client against a server that behaves, misbehaves and disappears."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from support.fake_line import ADMITTED, ENDED, HELLO, FakeLine, fake_server, refused, run, talk_state

from personaplex_app.client import Ended, Notice, Reconnecting, Talk, Unknown, Waiting, Words, connect
from personaplex_app.client import exchange as exchange_module
from personaplex_app.errors import InvalidInput, NoCapacity, PersonaplexError, ServerFault, SessionEnded

LOUD = np.full(480, 0.5, dtype=np.float32)


async def until_stopped(line: FakeLine) -> None:
    """Talks until the client stops."""
    await line.hear("stop")
    await line.tell(ENDED)


async def echo_once(line: FakeLine) -> None:
    """Answers the first sound with a frame, then waits for the end."""
    await line.begin()
    while not line.sound:
        received = await line.socket.recv()
        line.sound += received if isinstance(received, bytes) else b""
    await line.tell(line.sound[:960] + b"\1")
    await until_stopped(line)


def test_sound_goes_both_ways_and_the_stop_is_clean() -> None:
    async def story() -> None:
        async with fake_server(echo_once) as (url, lines):
            async with connect(url) as line, line.talk(prompt="You are kind.", seed=3) as talk:
                assert line.hello.slots == 1
                await talk.send(LOUD)
                piece = await talk.receive()
                assert piece is not None and np.abs(piece - LOUD).max() < 1e-4
            assert talk.over and talk.ended == Ended("stopped", ENDED["sentence"])
            assert await talk.receive() is None
            with pytest.raises(SessionEnded, match="You ended the talk"):
                await talk.send(LOUD)
            assert [message["type"] for message in lines[0].said] == ["ask", "sound", "stop"]
            assert lines[0].said[0]["choices"] == {"prompt": "You are kind.", "seed": 3}

    run(story)


def test_the_line_is_waited_in_and_the_turn_is_answered() -> None:
    async def script(line: FakeLine) -> None:
        await line.tell(HELLO)
        await line.hear("ask")
        await line.tell({"type": "waiting", "place": 2, "of": 2, "estimate_seconds": 60, "sentence": "Two."})
        await line.tell({"type": "weather"})
        await line.tell({"type": "turn", "seconds": 30, "sentence": "Now."})
        await line.hear("answer")
        await line.tell(ADMITTED)
        await line.hear("sound")
        await line.tell(talk_state(), {"type": "words", "text": "Hi", "from_start": False})
        await line.tell({"type": "warning", "code": "limit", "seconds": 30, "sentence": "Soon."})
        await line.tell({"type": "ended", "code": "limit", "sentence": "Time is up."})

    async def story() -> None:
        async with fake_server(script) as (url, _), connect(url) as line, line.talk() as talk:
            events = [event async for event in talk]
        kinds = [type(event).__name__ for event in events]
        assert kinds == ["Waiting", "Unknown", "Turn", "Admitted", "TalkState", "Words", "Notice", "Ended"]
        assert events[0] == Waiting(2, 2, 60, "Two.") and events[1] == Unknown("weather")
        assert events[5] == Words("Hi", False) and isinstance(events[6], Notice)
        assert talk.transcript == "Hi" and talk.ended == Ended("limit", "Time is up.")

    run(story)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (refused("no_capacity", "All taken."), NoCapacity),
        (refused("invalid_input", "No such voice."), InvalidInput),
        (refused("server_fault", "The engine is dead."), ServerFault),
        ({"type": "ended", "code": "unknown_voice", "sentence": "No such voice."}, InvalidInput),
        ({"type": "ended", "code": "no_answer", "sentence": "Nobody answered."}, SessionEnded),
        ('{"type": "turn"}', ServerFault),
        ("junk", ServerFault),
    ],
)
def test_a_talk_that_does_not_begin_says_why(message: object, kind: type[PersonaplexError]) -> None:
    async def script(line: FakeLine) -> None:
        await line.tell(HELLO)
        await line.hear("ask")
        await line.tell(message)
        await line.socket.wait_closed()

    async def story() -> None:
        async with fake_server(script) as (url, _), connect(url) as line, line.talk() as talk:
            for wait in (talk.started, lambda: talk.send(LOUD), lambda: talk.say(LOUD)):
                with pytest.raises(kind):
                    await wait()

    run(story)


def test_one_line_holds_one_talk_after_another() -> None:
    async def script(line: FakeLine) -> None:
        await line.tell(HELLO)
        await line.hear("ask")
        await line.tell(refused("no_capacity", "All taken."), refused("no_capacity", "Told again, too late."), b"\0\0")
        await line.hear("ask")
        await line.tell(ADMITTED, talk_state())
        await until_stopped(line)

    async def story() -> None:
        async with fake_server(script) as (url, _), connect(url) as line:
            async with line.talk() as talk:
                with pytest.raises(NoCapacity):
                    await talk.started()
            async with line.talk() as talk:
                await talk.started()
            assert talk.ended is not None

    run(story)


def test_a_cut_line_is_found_again_by_the_grant() -> None:
    async def first(line: FakeLine) -> None:
        await line.begin(grant="g1")
        await line.tell({"type": "words", "text": "One ", "from_start": False}, b"\0\0")
        await asyncio.sleep(0.1)
        line.cut()

    async def too_early(line: FakeLine) -> None:
        await line.tell(HELLO)
        await line.hear("resume")
        await line.tell(refused("no_capacity", "Not yet."))
        await line.socket.wait_closed()

    async def second(line: FakeLine) -> None:
        await line.tell(HELLO)
        assert await line.hear("resume") == {"type": "resume", "grant": "g1", "path": "socket"}
        await line.tell(talk_state(grant="g2", resumed=True), {"type": "words", "text": "two", "from_start": False})
        await line.tell(b"\1\0")
        await until_stopped(line)

    async def story() -> None:
        async with fake_server(first, too_early, second) as (url, lines), connect(url) as line, line.talk() as talk:
            heard = [await talk.receive(), await talk.receive()]
            assert [len(piece) for piece in heard if piece is not None] == [1, 1]
            assert talk.state is not None and talk.state.resumed and talk.transcript == "One two"
            await talk.stop()
            events = [event async for event in talk]
            assert sum(isinstance(event, Reconnecting) for event in events) == 2
        assert [message["type"] for message in lines[2].said] == ["resume", "stop"]

    run(story)


def test_the_server_s_word_that_the_sound_stopped_resumes_on_the_same_socket() -> None:
    async def script(line: FakeLine) -> None:
        await line.begin(grant="g1")
        await line.tell({"type": "lost", "grant": "g1", "seconds": 25, "sentence": "No sound."})
        assert (await line.hear("resume"))["grant"] == "g1"
        await line.tell(talk_state(grant="g2", resumed=True))
        await until_stopped(line)

    async def story() -> None:
        async with fake_server(script) as (url, lines), connect(url) as line, line.talk() as talk:
            async for _ in talk:
                if talk.state and talk.state.resumed:
                    await talk.stop()
        assert len(lines) == 1

    run(story)


def test_a_server_that_is_gone_for_good_ends_the_talk_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex_app.client.conversation.GRANT_SECONDS", 0.6)

    async def script(line: FakeLine) -> None:
        await line.begin()
        line.cut()

    async def story() -> None:
        async with fake_server(script) as (url, _):
            opened = connect(url)
            line = await opened.__aenter__()
            talk = line.talk()
            await talk.__aenter__()
            await talk.started()
        with pytest.raises(ServerFault, match="did not come back"):
            while await talk.receive() is not None:
                pass
        with pytest.raises(ServerFault, match="did not come back"):
            [event async for event in talk]
        await talk.stop()
        await opened.__aexit__(None, None, None)

    run(story)


def test_a_server_that_says_nothing_any_more_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "PING_SECONDS", 0.05)
    monkeypatch.setattr(exchange_module, "DEAD_SECONDS", 0.2)

    async def deaf(line: FakeLine) -> None:
        await line.begin()
        await line.socket.wait_closed()

    async def second(line: FakeLine) -> None:
        await line.tell(HELLO)
        await line.hear("resume")
        await line.tell(talk_state(resumed=True))
        await until_stopped(line)

    async def story() -> None:
        async with fake_server(deaf, second) as (url, _), connect(url) as line, line.talk() as talk:
            await talk.started()
            while not (talk.state and talk.state.resumed):
                await asyncio.sleep(0.02)
            while talk.round_trip_seconds is None:
                await asyncio.sleep(0.02)
            assert 0 < talk.round_trip_seconds < 2 and talk.step_ms == 3

    run(story)


def test_sound_said_while_the_line_is_cut_is_dropped_and_counted() -> None:
    async def first(line: FakeLine) -> None:
        await line.begin()
        await line.tell({"type": "lost", "grant": "g1", "seconds": 25, "sentence": "No sound."})
        await line.hear("stop")
        await line.tell(ENDED)

    async def story() -> None:
        async with fake_server(first) as (url, _), connect(url) as line, line.talk() as talk:
            await talk.started()
            while talk.talking:
                await asyncio.sleep(0.01)
            await talk.send(LOUD)
            await talk.send(LOUD)
            assert talk.unsent == 2

    run(story)


def test_speech_keeps_the_pace_of_time() -> None:
    async def script(line: FakeLine) -> None:
        await line.begin()
        await until_stopped(line)

    async def story() -> None:
        async with fake_server(script) as (url, lines):
            async with connect(url) as line, line.talk() as talk:
                await talk.started()
                began = time.monotonic()
                await talk.say(np.zeros(4800, dtype=np.float32))
                await talk.say(np.zeros(4801, dtype=np.float32))
                assert time.monotonic() - began >= 0.4 - 0.02
            assert len(lines[0].sound) == 2 * 9601
            assert talk.pace is not None and talk.pace.pieces == 21

    run(story)


def test_a_talk_nobody_reads_keeps_a_minute_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "MOST_PIECES", 3)

    async def script(line: FakeLine) -> None:
        await line.begin()
        await line.tell(*[bytes([number, 0]) for number in range(5)])
        await line.tell(ENDED)

    async def story() -> None:
        async with fake_server(script) as (url, _), connect(url) as line, line.talk() as talk:
            assert [type(event).__name__ async for event in talk][-1] == "Ended"
            heard = []
            while (piece := await talk.receive()) is not None:
                heard.append(round(float(piece[0]) * 32768))
            assert heard == [2, 3, 4]

    run(story)


def test_leaving_a_deaf_server_takes_three_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex_app.client.talk.GOODBYE_SECONDS", 0.2)

    async def script(line: FakeLine) -> None:
        await line.begin()
        await line.socket.wait_closed()

    async def story() -> None:
        async with fake_server(script) as (url, _), connect(url) as line:
            async with line.talk() as talk:
                assert isinstance(talk, Talk)
                await talk.started()
            assert talk.over and talk.ended is None

    run(story)


@pytest.mark.parametrize(
    ("status", "lines", "sentence"),
    [
        (404, "", "no server of this app: ws://.* answered 404"),
        (200, "", "no server of this app"),
        (401, '{"sentence": "Log in first."}', "name and a password"),
        (403, '{"sentence": "Log in first."}', "name and a password"),
        (403, '["a web server of another kind"]', "no server of this app: ws://.* answered 403"),
        (403, "3", "no server of this app"),
        (503, "", "not ready"),
    ],
)
def test_a_door_that_does_not_open_says_why(status: int, lines: str, sentence: str) -> None:
    async def story() -> None:
        async with fake_server(status=status, lines=lines) as (url, _):
            with pytest.raises(InvalidInput, match=sentence):
                async with connect(url):
                    pass

    run(story)


@pytest.mark.parametrize(
    ("first", "sentence"),
    [("junk", "no greeting"), ({**HELLO, "protocol": 2}, "speaks protocol 2 and this client 1"), (None, "no greeting")],
)
def test_another_kind_of_socket_says_so(first: object, sentence: str) -> None:
    async def script(line: FakeLine) -> None:
        if first is not None:
            await line.tell(first)
            await line.socket.wait_closed()

    async def story() -> None:
        async with fake_server(script) as (url, _):
            with pytest.raises(InvalidInput, match=sentence):
                async with connect(url):
                    pass

    run(story)


def test_nobody_there() -> None:
    async def story() -> None:
        async with fake_server() as (url, _):
            pass
        for auth in (None, ("me", "secret")):
            with pytest.raises(InvalidInput, match="No server answers at http://127"):
                async with connect(url, auth=auth):
                    pass

    run(story)
