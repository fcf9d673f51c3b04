"""`load` against the real server: both kinds of callers talk and measure, and whoever is not let in is counted."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.served import Served, serving

from personaplex_app.cli import main


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving("--engine", "echo", "--slots", "3") as server:
        yield server


@pytest.mark.timed
def test_both_kinds_are_measured_and_who_finds_no_line_is_counted(
    server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "load.json"
    flags = ["--calls", "4", "--kind", "mixed", "--seconds", "4", "--stagger", "0.5", "--pid", str(server.process.pid)]
    assert main(["load", "--url", server.url, "--json", str(out), *flags]) == 0
    table = capsys.readouterr().out
    assert "4 calls, 4 s together: 3 completed, 1 refused, 0 failed" in table and "1 refused: in_line" in table
    load = json.loads(out.read_text())
    for kind in ("socket", "webrtc"):
        figures = load["kinds"][kind]
        assert figures["bursts_heard"] >= 0.9 * figures["bursts"] > 0
        assert 80 < figures["mouth_to_ear_ms"]["p50"] < 800
        assert figures["heard_seconds"] > 0.8 * figures["call_seconds"]
        assert figures["connect_ms"]["max"] < 10_000
    calls: list[dict[str, Any]] = load["calls"]
    assert [call["kind"] for call in calls] == ["socket", "webrtc", "socket", "webrtc"]
    done = [call for call in calls if call["outcome"] == "completed"]
    assert all(call["pieces"] > 150 for call in done)
    assert {call["packets_lost"] for call in done if call["kind"] == "webrtc"} == {0}
    (left_out,) = [call for call in calls if call not in done]
    assert (left_out["outcome"], left_out["code"], left_out["delays_ms"]) == ("refused", "in_line", [])
    names = [thread["name"] for thread in load["server"]["threads"]]
    assert {"event-loop", "tick"} <= set(names) and names[0] == "event-loop"
    assert 0 < load["server"]["cores"] < 2
    assert multiprocessing.active_children() == []


def test_a_server_that_is_not_there_fails_every_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "--url", "http://127.0.0.1:9", "--calls", "2", "--seconds", "3", "--processes", "1"]) == 0
    table = capsys.readouterr().out
    assert "0 completed, 0 refused, 2 failed" in table and "2 failed: unreachable" in table


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--calls", "0"), "--calls must be from 1 to 1000, not 0"),
        (("--seconds", "1"), "--seconds must be from 3"),
        (("--stagger", "-1"), "--stagger must be from 0"),
        (("--processes", "0"), "--processes must be from 1"),
        (("--pid", "4194305"), "--pid 4194305: there is no such process"),
        (("--json", "nowhere/o.json"), "there is no directory nowhere"),
        (("--in", "nowhere.wav"), "There is no file nowhere.wav"),
        (("--url", "nowhere"), "is no address"),
        (("--auth", "me"), "--auth must be USER:PASS"),
    ],
)
def test_what_cannot_be_used_has_a_sentence(
    flags: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["load", "--url", "http://127.0.0.1:9", "--calls", "1", *flags]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: ") and said in told.err and told.err.count("\n") == 1 and told.out == ""
