"""The guards as a client sees them: each message once, on the screen too, and a flag that forbids it to act."""

from __future__ import annotations

import io
from typing import Any

import pytest
from support.fake_line import ENDED, HELLO, FakeLine, fake_server, run, talk_state

from personaplex_app.cli import build_parser
from personaplex_app.client import Echo, Guard, connect
from personaplex_app.talk_command import read_wishes
from personaplex_app.terminal_talk import Screen


def guard(number: int, action: str) -> dict[str, Any]:
    fields = {"reason": "repeats", "phrase": "no", "second": 2.0, "sentence": f"{action} {number}."}
    return {"type": "guard", "number": number, "action": action, **fields}


def echo(number: int, action: str) -> dict[str, Any]:
    fields = {"lag_ms": 200, "level_db": -20, "second": 9.0, "sentence": f"{action} {number}."}
    return {"type": "echo", "number": number, "action": action, **fields}


def test_what_is_told_again_after_a_resume_is_heard_once() -> None:
    async def first(line: FakeLine) -> None:
        await line.begin()
        await line.tell(guard(0, "steadied"), echo(0, "began"))
        line.cut()

    async def second(line: FakeLine) -> None:
        await line.tell(HELLO)
        await line.hear("resume")
        await line.tell(talk_state(resumed=True), guard(0, "steadied"), guard(1, "put_back"))
        await line.tell(echo(0, "began"), echo(1, "over"), ENDED)

    async def story() -> None:
        async with fake_server(first, second) as (url, lines), connect(url) as line:
            async with line.talk(loop_guard=False) as talk:
                told = [event async for event in talk if isinstance(event, Guard | Echo)]
            assert sorted((event.number, event.action) for event in told) == [
                (0, "began"),
                (0, "steadied"),
                (1, "over"),
                (1, "put_back"),
            ]
            assert lines[0].said[0]["choices"] == {"loop_guard": False}

    run(story)


def test_the_screen_tells_it_as_a_status() -> None:
    words, status = io.StringIO(), io.StringIO()
    screen = Screen(words, status)
    screen.show(Guard(0, "noticed", "silent", "", 31.0, "Not a word."), begun=True)
    screen.show(Echo(0, "began", 200, -20, 32.0, "It hears itself."), begun=True)
    assert (words.getvalue(), status.getvalue()) == ("", "Not a word.\nIt hears itself.\n")


@pytest.mark.parametrize(("flags", "wish"), [([], {}), (["--no-loop-guard"], {"loop_guard": False})])
def test_the_flag_forbids_it(flags: list[str], wish: dict[str, Any]) -> None:
    assert read_wishes(build_parser().parse_args(["talk", "--url", "http://127.0.0.1:1", *flags])) == wish
