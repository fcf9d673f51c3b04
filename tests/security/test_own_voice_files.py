"""What visitors send as a voice: never unpickled, never written to a disk, never a path; whatever its name says."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import torch
from starlette.applications import Starlette
from support.call import open_desk, play_out
from support.clips import sound_file, speech
from support.engine import CHOICES
from support.hostile import hostile_names
from support.voice_files import traps
from support.voice_visitor import CONSENT

from personaplex_app.controls import Choices
from personaplex_app.engine.echo import EchoStepper
from personaplex_app.engine.facade import Engine
from personaplex_app.errors import InvalidInput
from personaplex_app.network import Network
from personaplex_app.voice_clip import Clip
from personaplex_app.web import own_voice_routes
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.doors import Doors
from personaplex_app.web.visitors import COOKIE, Visitors

NAMES = ("../../etc/passwd", "/etc/passwd", "voice.pt", "a\\b", "%2e%2e%2fx", "http://evil.example/x.wav", "x" * 5000)


def visited(story: Any) -> None:
    """A desk over an echo, and a browser with a cookie at its routes."""

    async def run() -> None:
        visitors = Visitors()
        cookie = f"{COOKIE}={visitors.sign('anna')}"
        with Engine(EchoStepper()) as engine:
            async with open_desk(engine) as desk:
                app = Starlette(routes=own_voice_routes.own_voice_routes(desk, Doors(visitors, Network())))
                transport = httpx.ASGITransport(app)
                headers = {"cookie": cookie, **CONSENT}
                async with httpx.AsyncClient(transport=transport, base_url="http://here", headers=headers) as client:
                    await story(client, desk)

    play_out(run)


@pytest.fixture(scope="module")
def clip() -> bytes:
    return sound_file(speech())


def test_booby_trapped_voice_files_are_no_sound_and_are_never_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    for place, name in ((torch, "load"), (pickle, "loads"), (pickle, "load")):
        monkeypatch.setattr(place, name, lambda *_, **__: pytest.fail("somebody unpickles"))

    async def story(client: httpx.AsyncClient, desk: FrontDesk) -> None:
        for kind, data in traps(mark).items():
            answer = await client.post("/voices/own", content=data, headers={"x-file-name": "voice.pt"})
            assert answer.status_code == 422 and "no sound file" in answer.json()["error"], kind
        assert not len(desk.own_voices)

    visited(story)
    assert not mark.exists()


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:20])
def test_a_file_s_name_means_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[bytes] = []
    monkeypatch.setattr(own_voice_routes, "read_clip", lambda data: (got.append(data), Clip(speech()))[1])

    async def story(client: httpx.AsyncClient, desk: FrontDesk) -> None:
        answer = await client.post("/voices/own", content=b"clip", headers={"x-file-name": name})
        assert answer.status_code == 200 and name not in answer.text

    visited(story)
    assert got == [b"clip"], "the bytes are all that is looked at"


def test_five_hundred_hostile_names_delete_nothing_and_name_no_voice() -> None:
    names = hostile_names()
    assert len(names) == 500

    async def story(client: httpx.AsyncClient, desk: FrontDesk) -> None:
        kept = desk.own_voices.keep("anna", _Learned(), 5.0)
        for name in names:
            address = quote(name.encode("utf-8", "surrogatepass"), safe="")[:60_000]
            answer = await client.delete(f"/voices/own/{address}")
            assert answer.status_code in (307, 404, 405) and kept.name not in answer.text, name
            for asked in (name, f"own-{name}"):
                with pytest.raises(InvalidInput):
                    desk.own_voices.find("anna", asked)
        assert desk.own_voices.find("anna", kept.name) is kept

    visited(story)


class _Learned:
    bytes = 1


def test_a_talk_that_asks_for_another_s_voice_never_reaches_the_engine() -> None:
    async def story(client: httpx.AsyncClient, desk: FrontDesk) -> None:
        kept = desk.own_voices.keep("anna", _Learned(), 5.0)
        choices = Choices("", kept.name, CHOICES.sampling, 1)
        for visitor in ("bert", "", "anna "):
            with pytest.raises(InvalidInput):
                desk.ask(visitor, "192.0.2.1", choices)
        desk.stop(desk.ask("anna", "192.0.2.1", choices))

    visited(story)


# No file is written for a clip: neither by the server's process nor by the one that decodes, which has no power to.

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
written: list[str] = []
_watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event == "open":
        path, mode, flags = arguments
        if isinstance(path, int) or str(path).startswith("/proc/self/"):
            return  # a pipe; a thread's name
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & WRITES):
            written.append(str(path))


@pytest.fixture
def watched() -> Iterator[list[str]]:
    global _watching
    if _watch not in _hooks:
        sys.addaudithook(_watch)
        _hooks.append(_watch)
    written.clear()
    _watching = True
    yield written
    _watching = False


_hooks: list[Any] = []


def test_the_watch_sees_what_is_written(watched: list[str], tmp_path: Path) -> None:
    (tmp_path / "clip").write_bytes(b"x")
    assert any("clip" in path for path in watched)


def test_nothing_is_written_for_a_clip(clip: bytes, watched: list[str]) -> None:
    async def story(client: httpx.AsyncClient, desk: FrontDesk) -> None:
        answer = await client.post("/voices/own", content=clip)
        assert answer.status_code == 200
        assert (await client.get("/voices/own")).json()["voices"]

    visited(story)
    assert not [path for path in watched if "__pycache__" not in path]
