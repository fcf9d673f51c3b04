"""A load's pure parts: bursts found again, every call counted, a process's time read as the kernel tells it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fake_line import ENDED, HELLO, FakeLine, fake_server, refused, run

from personaplex_app.client.pace import Pace
from personaplex_app.errors import InvalidInput
from personaplex_app.evaluation.caller import Call
from personaplex_app.evaluation.calls import CallPlan, CallResult, Listening
from personaplex_app.evaluation.cpu import Spent, ThreadTime, look, spent
from personaplex_app.evaluation.load_report import Load, as_json, as_text, percentiles, summary
from personaplex_app.evaluation.markers import LOOP_SECONDS, Burst, Mouth, bursts_until, delays_seconds
from personaplex_app.evaluation.page_wire import read_form


def said(rate_hz: int, seconds: float, speech: np.ndarray | None = None) -> np.ndarray:
    """What a mouth says, at 24 kHz."""
    mouth = Mouth(rate_hz, speech)
    pcm = np.concatenate([mouth.piece(number) for number in range(round(50 * seconds))])
    return pcm if rate_hz == 24_000 else pcm[::2]


@pytest.mark.parametrize("rate_hz", [24_000, 48_000])
@pytest.mark.parametrize("delay", [0.0, 0.1234, 1.9])
def test_a_burst_is_found_to_the_millisecond(rate_hz: int, delay: float) -> None:
    bursts = bursts_until(LOOP_SECONDS + 3)  # beyond the loop's end, where it begins anew
    heard = np.concatenate([np.zeros(round(delay * 24_000), dtype=np.float32), said(rate_hz, LOOP_SECONDS + 6)])
    found = delays_seconds(bursts, 0.5 * heard)
    assert len(found) == 20
    assert all(value is not None and abs(value - delay) < 0.001 for value in found)


def test_bursts_are_found_under_speech_and_missed_where_they_are_lost() -> None:
    rng = np.random.default_rng(1)
    speech = np.convolve(rng.standard_normal(48_000), np.ones(30) / 30, "same").astype(np.float32)
    heard = said(24_000, 10, speech)
    bursts = bursts_until(8)
    lost = bursts[3]
    at = round(lost.at_seconds * 24_000)
    heard[at - 300 : at + 300] = 0
    found = delays_seconds(bursts, heard)
    assert [number for number, value in enumerate(found) if value is None] == [3]
    assert max(value for value in found if value is not None) < 0.002
    assert delays_seconds([Burst(99.0, 900.0)], heard) == [None]


def test_bursts_meet_every_phase_of_a_frame() -> None:
    phases = {round(1000 * burst.at_seconds) % 80 for burst in bursts_until(LOOP_SECONDS)}
    assert phases == set(range(0, 80, 10))


def test_a_call_s_figures() -> None:
    pace = Pace(start=100.02)
    listening, mouth = Listening(pace), Mouth(24_000)
    listening.hear(np.ones(480, dtype=np.float32), 99.0)  # before anything was said
    for number in range(400):
        pace.pieces += 1
        if number < 300:
            listening.hear(mouth.piece(number), 100.0 + 0.02 * number + 0.2)
    result = CallResult(0, "socket", connect_ms=1.0)
    listening.measure(result, talking_since=100.0, until=108.0)
    assert result.bursts == 7, "from half a second after the beginning to two seconds before the end"
    assert len(result.delays_ms) == 7 and all(abs(value - 240) < 2 for value in result.delays_ms)
    assert (result.seconds, result.heard_seconds, result.gaps, result.pieces) == (8.0, 6.0, 0, 400)


def results() -> list[CallResult]:
    """Three calls that ran, two of them to their end, and two that were not let in."""
    good = {"connect_ms": 5.0, "seconds": 10.0, "heard_seconds": 9.9, "bursts": 4, "pieces": 500}
    return [
        CallResult(0, "socket", "completed", delays_ms=[100, 110, 120, 130], counters={"missed": 2}, **good),
        CallResult(1, "webrtc", "completed", delays_ms=[200, 210, 220], packets_lost=3, gaps=2, gap_ms=100, **good),
        CallResult(2, "socket", "failed", "fault", "Broken.", delays_ms=[400], losses=1, **good),
        CallResult(3, "webrtc", "refused", "in_line", "All taken."),
        CallResult(4, "webrtc", "refused", "in_line", "All taken."),
    ]


def test_refused_and_failed_calls_stay_in_the_count() -> None:
    total = summary(results())
    assert (total["calls"], total["completed"], total["refused"], total["failed"]) == (5, 2, 2, 1)
    assert total["reasons"] == {"refused: in_line": 2, "failed: fault": 1}
    assert total["mouth_to_ear_ms"] == {"p50": 165.0, "p90": 274.0, "p99": 387.4, "max": 400.0}
    assert (total["bursts"], total["bursts_heard"], total["packets_lost"], total["losses"]) == (12, 8, 3, 1)
    assert total["server_counters"] == {"missed": 2}
    assert percentiles([]) is None


def test_the_table_says_it_all() -> None:
    busy = Spent(9.0, 0.5, [ThreadTime("event-loop", 0.3, 0.1), ThreadTime("tick", 0.1, 0.0)], 0.75)
    load = Load("http://host", 10, results(), 2, 1.5, busy)
    text = as_text(load)
    assert "5 calls, 10 s together: 2 completed, 2 refused, 1 failed" in text
    assert "2 refused: in_line" in text and "1 lost connections" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows["all"][1:6] == ["5", "165.0", "274.0", "387.4", "400.0"]
    assert "50 % of one core over 9 s, 16.7 % a call; this machine's cores were 75 % busy" in text
    assert rows["event-loop"][1] == "40.0" and "MISSED" not in text
    assert json.loads(json.dumps(as_json(load)))["calls"][2]["code"] == "fault"


def test_callers_who_miss_their_own_schedule_say_so() -> None:
    late = CallResult(0, "socket", "completed", connect_ms=1, pieces=100, late_pieces=2, worst_late_ms=90)
    text = as_text(Load("http://host", 10, [late], 1, 1.0))
    assert "THE CALLERS MISSED THEIR OWN SCHEDULE" in text and "90 ms at worst" in text and "not watched" in text


def fake_proc(root: Path, threads: dict[int, tuple[str, int, int]], machine: str) -> None:
    """A /proc with one process, 7."""
    for thread, (name, user, system) in threads.items():
        task = root / "7" / "task" / str(thread)
        task.mkdir(parents=True, exist_ok=True)
        (task / "stat").write_text(f"{thread} ({name}) S 1 7 7 0 -1 4 1 0 0 0 {user} {system} 0 0 20 0 3 0 55\n")
    (root / "stat").write_text(f"cpu  {machine}\ncpu0 1 1\n")


def test_a_process_s_time_by_thread(tmp_path: Path) -> None:
    fake_proc(tmp_path, {7: ("python", 100, 10), 8: ("a (b) c", 0, 0)}, "100 0 0 800 100 0 0 0 0 0")
    before = look(7, tmp_path)
    fake_proc(tmp_path, {7: ("python", 150, 20), 8: ("a (b) c", 10, 10), 9: ("python", 20, 0)}, "200 0 0 850 150 0 0 0")
    after = look(7, tmp_path)
    used = spent(before, type(after)(before.at + 1.0, after.threads, after.busy_seconds, after.all_seconds))
    assert [(thread.name, thread.user_seconds, thread.system_seconds) for thread in used.threads] == [
        ("python", pytest.approx(0.7), pytest.approx(0.1)),
        ("a (b) c", pytest.approx(0.1), pytest.approx(0.1)),
    ]
    assert used.cores == pytest.approx(1.0) and used.machine == pytest.approx(0.5)
    with pytest.raises(InvalidInput, match="no such process"):
        look(999, tmp_path)


def config(**changed: Any) -> dict[str, Any]:
    """The parts of gradio's configuration that matter."""
    return {
        "api_prefix": "/gradio_api",
        "components": [
            {"id": 4, "type": "textbox", "props": {"elem_id": "ticket"}},
            {"id": 9, "type": "webrtc", "props": {}},
        ],
        "dependencies": [
            {"id": 0, "targets": [[4, "change"]], "inputs": []},
            {"id": 3, "targets": [[9, "tick"]], "inputs": [9, 4, 5]},
        ],
        **changed,
    }


def test_the_page_s_form_is_found_in_its_configuration() -> None:
    form = read_form(config())
    assert (form.api, form.component, form.event) == ("/gradio_api", 9, 3)
    assert form.values("peer", "secret") == ["peer", "secret", None]


@pytest.mark.parametrize("change", [{"components": []}, {"dependencies": []}, {"components": None}, {"api_prefix": 0}])
def test_another_page_is_said_to_be_one(change: dict[str, Any]) -> None:
    broken = config(**change)
    if change.get("api_prefix") == 0:
        del broken["api_prefix"]
    with pytest.raises(InvalidInput, match="no WebRTC component"):
        read_form(broken)


def plan(url: str, seconds: float = 0.3) -> CallPlan:
    return CallPlan(0, "socket", url, None, time.monotonic(), time.monotonic() + seconds)


async def completes(line: FakeLine) -> None:
    await line.begin(counters={"missed": 1})
    await line.hear("stop")
    await line.tell(ENDED)


async def breaks(line: FakeLine) -> None:
    await line.begin()
    await line.tell({"type": "ended", "code": "fault", "sentence": "Broken."})


async def is_full(line: FakeLine) -> None:
    await line.tell(HELLO)
    await line.hear("ask")
    await line.tell({"type": "waiting", "place": 1, "of": 1, "estimate_seconds": 60, "sentence": "All taken."})
    await line.hear("stop")
    await line.tell(ENDED)


async def refuses(line: FakeLine) -> None:
    await line.tell(HELLO)
    await line.hear("ask")
    await line.tell(refused("too_many_joins"))


@pytest.mark.parametrize(
    ("script", "outcome", "code"),
    [
        (completes, "completed", ""),
        (breaks, "failed", "fault"),
        (is_full, "refused", "in_line"),
        (refuses, "refused", "too_many_joins"),
        (None, "failed", "unreachable"),
    ],
)
def test_whatever_happens_to_a_call_it_is_counted(script: Any, outcome: str, code: str) -> None:
    async def story() -> None:
        async with fake_server(*([script] if script else [])) as (url, _):
            call = Call(plan(url))
            if script is not None:
                await call.hold()
        if script is None:
            await call.hold()
        result = call.measured()
        assert (result.outcome, result.code) == (outcome, code)
        assert result.begun == (script in (completes, breaks))
        if script is completes:
            assert 12 <= result.pieces <= 16 and result.counters == {"missed": 1}

    run(story)


def test_a_caller_s_own_fault_and_a_call_that_never_ends_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(call: Call) -> None:
        raise RuntimeError("ours")

    async def endless(call: Call) -> None:
        await asyncio.sleep(60)

    async def story() -> None:
        for how, code in ((broken, "client_error"), (endless, "timeout")):
            monkeypatch.setattr("personaplex_app.evaluation.caller.OVERTIME_SECONDS", 0.1)
            monkeypatch.setattr("personaplex_app.evaluation.socket_caller.by_socket", how)
            call = Call(plan("http://127.0.0.1:9", 0.1))
            await call.hold()
            assert (call.result.outcome, call.result.code) == ("failed", code)

    run(story)
