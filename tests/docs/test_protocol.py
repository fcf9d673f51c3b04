"""The page on the protocol: its example runs, and its tables name the messages that both ends know."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from support.call import eventually, play_out
from support.front import OpenFront, open_front
from support.recording import SPEED, TalkativeStepper, numbered
from support.served import served
from support.signals import aligned_correlation

from personaplex_app.client import messages, parsing
from personaplex_app.client.messages import Reconnecting, Unknown
from personaplex_app.engine.echo_guard import BEGAN, Leak
from personaplex_app.engine.facade import Engine
from personaplex_app.metrics import REFUSALS
from personaplex_app.web import protocol

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.split("```python\n")[1].split("```")[0]


def table(heading: str) -> dict[str, list[str]]:
    """Types and their fields, as a table of the page names them."""
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|", PAGE.split(f"## {heading}\n")[1].split("\n## ")[0], re.MULTILINE)
    return {kind: re.findall(r"`(\w+)`", fields) for kind, fields in rows}


def test_the_example_runs() -> None:
    names: dict[str, Any] = {}
    exec(compile(EXAMPLE, "docs/protocol.md", "exec"), names)
    question = (np.random.default_rng(3).standard_normal(24_000) * 0.1).astype(np.float32)
    with served("--engine", "echo") as url:
        heard, words = asyncio.run(names["ask"](url, question))
    assert words == "", "an echo has no words"
    assert len(heard) > 4 * 24_000
    assert aligned_correlation(question, heard, 24_000)[0] > 0.8


def test_what_a_client_may_say_is_what_the_server_knows() -> None:
    named = table("From the client")
    assert list(named) == list(protocol._KNOWN)
    for kind, fields in named.items():
        value = {"grant": "g", "path": "socket", "choices": {}, "at": 1, "heard": 3, "sdp": "v=0", "on": True}
        text = protocol.say(kind, **{field: value[field] for field in fields})
        assert type(protocol.parse(text)).__name__.lower() == kind.replace("_", "")


def test_what_the_server_says_is_what_the_client_reads() -> None:
    named = table("From the server")
    assert named.pop("check") == ["ice_servers", "sdp"], "for pages only"
    assert list(named) == list(parsing._TYPES)
    for kind, fields in named.items():
        assert fields == list(parsing._TYPES[kind].__dataclass_fields__), kind
    ours = {Unknown, Reconnecting}
    assert set(parsing._TYPES.values()) == {event for event in messages.Event.__args__ if event not in ours}


def test_every_message_has_exactly_the_fields_that_the_page_names() -> None:
    """A talk in which all of them are sent, one way or another."""

    async def story(front: OpenFront) -> list[dict[str, Any]]:
        async with front.caller("anna") as anna, front.caller("bert") as bert:
            await bert.say("check")
            await bert.next("check")
            await anna.talk(seed=0)
            anna.speak(numbered, SPEED)
            await anna.say("record", on=True)
            await anna.next("said")
            (talk,) = front.desk._talks.values()
            assert talk.session is not None and talk.looking is not None
            talk.session.transcript.note("noticed", "repeats", "so", "It goes round in circles.", 1)
            talk.looking.echo.leaks.append(Leak(BEGAN, 1, 120, -20))
            for kind in ("guard", "echo", "health"):
                await anna.next(kind)
            await anna.say("ping", at=1)
            await bert.ask()
            await bert.next("waiting")
            await anna.say("start_over", choices={"seed": 0})
            await anna.next("started_over")
            await anna.next("talk", fits=lambda told: told["frames"] > 0 or told["state"] == "talking")
            await eventually(lambda: talk.looking.turns.frames > 70, what="long enough for an X-ray")
            await anna.say("stop")
            await anna.next("ended")
            await anna.send("no message")
            await anna.next("refused")
            await bert.next("turn")
            await bert.say("answer")
            await bert.come_in()
            front.desk.drain("The server is going to stop.", 30)
            await bert.next("warning")
            front.desk.lose(next(iter(front.desk._talks.values())))
            await bert.next("lost")
            return anna.told + bert.told

    async def run() -> None:
        async with open_front(engine) as front:
            told = await story(front)
        named = table("From the server")
        assert {message["type"] for message in told} == set(named)
        for message in told:
            kind, fields = message["type"], set(message) - {"type"}
            assert fields <= set(named[kind]) if kind == "check" else fields == set(named[kind]), message

    with Engine(TalkativeStepper()) as engine:
        play_out(run)


def test_what_is_told_beside_the_socket_is_named() -> None:
    async def run() -> None:
        async with open_front(engine) as front, httpx.AsyncClient(base_url=front.http) as client:
            lines = (await client.get("/talk/lines")).json()
        named = re.findall(r"`(\w+)`", PAGE.split("`GET /talk/lines` →")[1].split("`GET")[0])
        assert named == [name for key in lines for name in (key, *(lines[key] if key == "model" else ()))]

    with Engine(TalkativeStepper()) as engine:
        play_out(run)


def test_every_refusal_that_the_page_names_is_counted_by_its_name() -> None:
    told = (
        PAGE.split("\nRefusals: ")[1].split("\n## ")[0]
        + PAGE.split("Refusals leave the talk as it was:")[1].split(".")[0]
    )
    codes = set(re.findall(r"`([a-z]+_[a-z_]+|draining)`", told))
    assert codes == set(REFUSALS)


def test_the_numbers_of_the_page_are_the_server_s() -> None:
    assert f"up to {protocol.MOST_SOUND_BYTES:,}" in PAGE
    assert f"version {protocol.VERSION}" in PAGE
