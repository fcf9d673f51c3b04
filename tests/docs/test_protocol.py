"""The page on the protocol: its example runs, and its tables name the messages that both ends know."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
from support.served import served
from support.signals import aligned_correlation

from personaplex_app.client import messages
from personaplex_app.client.messages import Reconnecting, Unknown
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
    assert list(named) == list(messages._TYPES)
    for kind, fields in named.items():
        assert fields == list(messages._TYPES[kind].__dataclass_fields__), kind
    ours = {Unknown, Reconnecting}
    assert set(messages._TYPES.values()) == {event for event in messages.Event.__args__ if event not in ours}


def test_the_numbers_of_the_page_are_the_server_s() -> None:
    assert f"up to {protocol.MOST_SOUND_BYTES:,}" in PAGE
    assert f"version {protocol.VERSION}" in PAGE
