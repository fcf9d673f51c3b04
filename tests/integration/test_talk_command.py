"""`talk` against the real server: what is said comes back in time, each error has a sentence."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from support.served import ROOT, Served, serving
from support.signals import aligned_correlation

from personaplex_app.audio import SAMPLE_RATE_HZ
from personaplex_app.cli import main
from personaplex_app.client import connect
from personaplex_app.sound_files import read_sound

LOGIN = "me:a secret"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving("--engine", "echo") as server:
        yield server


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second and a half that nothing else sounds like, at a rate of its own."""
    path = tmp_path_factory.mktemp("said") / "noise.wav"
    soundfile.write(path, np.random.default_rng(0).standard_normal(48_000).astype(np.float32) * 0.1, 32_000)
    return path


def talk(url: str, *flags: object) -> int:
    """The command's exit code."""
    return main(["talk", "--url", url, *map(str, flags)])


def sentence(capsys: pytest.CaptureFixture[str], code: int, expected: int) -> str:
    """The one sentence of an error."""
    told = capsys.readouterr()
    assert code == expected, told
    last = told.err.strip().splitlines()[-1]
    assert last.startswith("error: ") and "Traceback" not in told.err
    return last


@pytest.mark.timed
def test_what_is_said_comes_back_in_time(
    server: Served, noise: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "heard.wav"
    assert talk(server.url, "--in", noise, "--out", out, "--voice", "none", "--seed", "7", "--greedy") == 0
    told = capsys.readouterr()
    assert "Talking." in told.err and "You ended the talk." in told.err and " gaps, " in told.err
    heard = read_sound(out)
    assert 4 < len(heard) / SAMPLE_RATE_HZ < 12, "until three seconds after the last of it"
    correlation, delay_ms = aligned_correlation(read_sound(noise), heard, SAMPLE_RATE_HZ)
    assert correlation > 0.8
    assert 60 < delay_ms < 700


def test_seconds_are_what_was_asked_for(server: Served, noise: Path, tmp_path: Path) -> None:
    out = tmp_path / "heard.wav"
    assert talk(server.url, "--in", noise, "--out", out, "--seconds", "1") == 0
    assert 0.9 <= len(read_sound(out)) / SAMPLE_RATE_HZ < 3


def test_the_line_is_waited_in(server: Served, noise: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> int:
        async with connect(server.url) as line, line.talk() as first:
            await first.started()
            second = asyncio.create_task(
                asyncio.to_thread(talk, server.url, "--in", noise, "--out", tmp_path / "o.wav", "--seconds", "0.5")
            )
            while not await asyncio.to_thread(_waiting, server.url):
                await first.say(np.zeros(2400, dtype=np.float32))
        return await second

    assert asyncio.run(story()) == 0
    told = capsys.readouterr().err
    assert "You are number 1 in the line" in told and "It is your turn" in told and "Talking." in told


def test_a_cut_line_is_found_again_by_the_grant(server: Served) -> None:
    async def story() -> None:
        async with connect(server.url) as line, line.talk() as talk:
            await talk.say(np.zeros(24_000, dtype=np.float32))
            assert talk.state is not None
            first, before = talk.state, line.link
            before._socket.transport.abort()
            said = asyncio.create_task(talk.say(np.full(48_000, 0.25, dtype=np.float32)))
            while not talk.state.resumed:
                await asyncio.sleep(0.02)
            assert line.link is not before and talk.state.grant != first.grant
            while (piece := await talk.receive()) is not None and piece.max() < 0.2:
                pass
            assert piece is not None, "what was said after the cut comes back"
            await said
            assert talk.unsent < 100

    asyncio.run(story())


def _waiting(url: str) -> int:
    import urllib.request

    with urllib.request.urlopen(f"{url}/talk/lines") as answer:
        return int(json.load(answer)["waiting"])


def test_ctrl_c_ends_the_talk_and_keeps_what_was_heard(server: Served, noise: Path, tmp_path: Path) -> None:
    out = tmp_path / "heard.wav"
    command = [sys.executable, "-m", "personaplex_app", "talk", "--url", server.url, "--in", str(noise)]
    command += ["--out", str(out), "--seconds", "60"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "Talking." not in (line := process.stderr.readline()):
        assert line, "it ended before it talked"
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=20)[1]
    assert process.returncode == 0 and "You ended the talk." in rest
    assert 0 < len(read_sound(out)) / SAMPLE_RATE_HZ < 20


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--voice", "NATF0"), "The echo has no voices of its own."),
        (("--voice", "../passwd"), "no voice name"),
        (("--seed", "x"), "The seed must be a whole number"),
        (("--temperature-text", "9"), "Text temperature must be from 0 to 2"),
        (("--seconds", "0"), "--seconds must be more than 0"),
        (("--seconds", "nan"), "--seconds must be more than 0"),
        (("--in", "nowhere.wav"), "There is no file nowhere.wav"),
        (("--out", "nowhere/o.wav"), "there is no directory nowhere"),
        (("--auth", "me"), "--auth must be USER:PASS"),
        (("--url", "localhost:7860"), "is no address"),
        (("--url", "http://127.0.0.1:9"), "No server answers at http://127.0.0.1:9"),
        (("--url", "{url}/elsewhere"), "is no server of this app"),
        (("--url", "{url}/health"), "is no server of this app"),
    ],
)
def test_what_cannot_be_used_has_a_sentence(
    server: Served, noise: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: Any, said: str
) -> None:
    named = [flag.format(url=server.url) for flag in flags]
    code = talk(server.url, "--in", noise, "--out", tmp_path / "o.wav", *named)
    assert said in sentence(capsys, code, 2)
    assert not (tmp_path / "o.wav").exists()


def test_without_a_sound_card_files_are_asked_for(
    server: Served, noise: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    for flags in ((), ("--in", noise), ("--out", noise.parent / "o.wav")):
        assert "pip install sounddevice" in sentence(capsys, talk(server.url, *flags), 2)


def test_logins_and_a_server_that_goes_away(
    noise: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "heard.wav"
    monkeypatch.setattr("personaplex_app.client.conversation.GRANT_SECONDS", 1.0)
    files = ("--in", noise, "--out", out, "--seconds", "30")
    with serving("--engine", "echo", "--auth", LOGIN) as server:
        assert "give --auth USER:PASS" in sentence(capsys, talk(server.url, *files), 2)
        assert "does not know this name" in sentence(capsys, talk(server.url, "--auth", "me:wrong", *files), 2)

        async def story() -> int:
            talking = asyncio.create_task(asyncio.to_thread(talk, server.url, "--auth", LOGIN, *files))
            told = ""
            while "Talking." not in told:
                assert not talking.done(), told
                await asyncio.sleep(0.1)
                told += capsys.readouterr().err
            server.process.kill()
            return await talking

        code = asyncio.run(story())
    assert "did not come back in time" in sentence(capsys, code, 1)
    assert len(read_sound(out)) > 0, "what was heard till then is kept"
