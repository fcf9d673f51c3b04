"""`bench` as people call it: on the miniature, on a run that was saved, and with what cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from personaplex_app import assemble
from personaplex_app.cli import main
from personaplex_app.evaluation import bench, bench_joins, bench_talkers
from personaplex_app.settings import EngineChoice

ROOT = Path(__file__).parents[2]
MINI = ("bench", "--checkpoint", "mini", "--device", "cpu", "--window", "60", "--seconds", "1")
SLACK_MS = 6.0  # of a tick, between its parts


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run with 1 and 2 calls, kept as JSON, and its plot beside it."""
    path = tmp_path_factory.mktemp("bench") / "run.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "JOINS_SECONDS", (1.5, 15.0))
        patch.setattr(bench, "IDLE_SECONDS", 0.5)
        patch.setattr(bench_joins, "STARTS", 2)
        patch.setattr(bench_joins, "TURNOVER_SECONDS", 0.5)
        patch.setattr(bench_talkers, "UNPACED_STEPS", 10)
        flags = [
            "--calls",
            "1,2",
            "--agree",
            "4",
            "--forced",
            "5",
            "--json",
            str(path),
            "--plot",
            str(path.with_suffix(".png")),
        ]
        assert main([*MINI, *flags]) == 0
    return path


@pytest.fixture(scope="module")
def content(saved: Path) -> Any:
    return json.loads(saved.read_text(encoding="utf-8"))


def test_a_row_for_each_number_of_calls_with_as_many_ticks_as_were_due(content: Any) -> None:
    assert [row["calls"] for row in content["rows"]] == [1, 2]
    for row in content["rows"]:
        ticks = row["ticks"]
        assert row["failed"] == "" and ticks["frames"] == 12
        assert 12 - len(ticks["missed"]) <= len(ticks["tick_ms"]) <= 12
        assert set(ticks["parts_ms"]) == {"codec_in", "language", "codec_out"}
        assert all(len(values) == len(ticks["tick_ms"]) for values in (*ticks["parts_ms"].values(), ticks["host_ms"]))
        assert ticks["first_position"] == 60
        assert ticks["last_position"] == 60 + len(ticks["tick_ms"])
        assert row["throughput"]["frames_per_second"] > 0 and row["memory"]["host_bytes"] > 0
        assert row["memory"]["call_state_bytes"] > 0 and row["memory"]["weights_bytes"] > 1_000_000


def test_the_parts_make_up_the_tick(content: Any) -> None:
    for row in content["rows"]:
        ticks = row["ticks"]
        sums = [sum(parts) for parts in zip(*ticks["parts_ms"].values(), strict=True)]
        rest = sorted(whole - parts for whole, parts in zip(ticks["tick_ms"], sums, strict=True))
        assert all(one >= 0 for one in rest)
        assert rest[len(rest) // 2] < SLACK_MS
        assert all(0 < host <= 1.1 * whole for host, whole in zip(ticks["host_ms"], ticks["tick_ms"], strict=True))


def test_one_call_disturbs_nobody_and_two_do(content: Any) -> None:
    one, two = content["rows"]
    assert one["joins"] is None and one["agreement"] is None
    joins = two["joins"]
    assert joins["windows_kept"] and joins["joined"] == len(joins["prime_ms"]) >= 1
    assert joins["quiet"]["frames"] == joins["joining"]["frames"] == 19
    assert 150 < joins["prompt_positions"] <= 200
    same = two["agreement"]
    assert (same["frames"], same["text_equal"], same["codes_equal"], same["codes"]) == (4, 4, 32, 32)


def test_nothing_is_quantized_here_so_the_plain_engine_s_forced_talk_is_the_same(content: Any) -> None:
    same = content["forced"]
    assert same["against"] == "the plain engine"
    assert (same["frames"], same["text_equal"], same["top_equal"], same["codes_equal"]) == (5, 5, 5, 35)
    assert abs(same["kl_nats"]) < 1e-4


def test_starts_idling_and_where_it_ran(content: Any) -> None:
    for row in content["rows"]:
        short, long = row["starts"]
        assert 20 < short["positions"] <= 40 and 150 < long["positions"] <= 200
        assert all(
            len(start[name]) == 2 and min(start[name]) > 0 for start in (short, long) for name in ("new_ms", "known_ms")
        )
        assert row["idle_cpu_seconds"] < 0.5 * row["idle_seconds"]
    assert content["machine"]["torch"] == torch.__version__ and content["machine"]["CPU"]
    assert content["settings"]["checkpoint"] == "mini" and content["settings"]["window"] == "60"


def test_a_saved_run_is_shown_and_drawn_elsewhere(saved: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["bench", "--from", str(saved), "--plot", str(tmp_path / "again.png")]) == 0
    told = capsys.readouterr()
    assert "  60.." in told.out and "Whole tick, paced every 80 ms" in told.out and told.err == ""
    assert f"{tmp_path / 'again.png'}: Tick time against calls: 1 call p50" in told.out
    with Image.open(tmp_path / "again.png") as again, Image.open(saved.with_suffix(".png")) as first:
        assert again.info["Description"] == first.info["Description"] and again.size == first.size


def test_a_saved_run_needs_neither_torch_nor_the_web(saved: Path) -> None:
    script = (
        "import sys\n"
        "for name in ('torch', 'moshi', 'gradio', 'fastapi', 'fastrtc', 'matplotlib'): sys.modules[name] = None\n"
        "from personaplex_app.cli import main\n"
        f"sys.exit(main(['bench', '--from', {str(saved)!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Whole tick" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--calls", "0"), "--calls must be numbers from 1 to 256"),
        (("--calls", "257"), "--calls must be numbers from 1 to 256"),
        (("--calls", "-3"), "--calls must be numbers from 1 to 256"),
        (("--calls", ""), "--calls must be numbers from 1 to 256"),
        (("--calls", "1,,2"), "--calls must be numbers from 1 to 256"),
        (("--forced", "-1"), "--forced must be from 0 to 1000"),
        (("--forced", "1001"), "--forced must be from 0 to 1000"),
        (("--calls", "one"), "--calls must be numbers from 1 to 256"),
        (("--window", "0"), "--window must be full or a number"),
        (("--window", "wide"), "--window must be full or a number"),
        (("--window", "3001"), "--window must be at most 3000 for this checkpoint"),
        (("--seconds", "0"), "--seconds must be more than 0"),
        (("--seconds", "nan"), "--seconds must be more than 0"),
        (("--agree", "-1"), "--agree must be from 0"),
        (("--threads", "0"), "--threads must be from 1"),
        (("--checkpoint", "nowhere"), "There is no checkpoint directory"),
        (("--json", "nowhere/run.json"), "there is no directory nowhere"),
        (("--json", "."), "it is a directory"),
        (("--plot", "nowhere/run.png"), "there is no directory nowhere"),
        (("--plot", "run.txt"), "must end in .png or .svg"),
        (("--from", "nowhere.json"), "There is no file nowhere.json."),
        (("--from", str(ROOT / "README.md")), "README.md cannot be read as JSON"),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_used_is_one_sentence(
    flags: tuple[str, ...], sentence: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*MINI, *flags]) == 2
    told = capsys.readouterr()
    errors = [line for line in told.err.splitlines() if line != "1 call: loading"]
    assert len(errors) == 1 and errors[0].startswith("error: ") and sentence in errors[0]
    assert told.out == "" and list(tmp_path.iterdir()) == []


def test_more_calls_than_memory_allows_are_told_in_the_table_and_at_the_end(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(choice: EngineChoice, report: Any) -> Any:
        raise torch.OutOfMemoryError(f"CUDA out of memory, {choice.slots} slots")

    monkeypatch.setattr(assemble, "build_stepper", build)
    path = tmp_path / "run.json"
    assert main([*MINI, "--calls", "64,128", "--json", str(path), "--plot", str(tmp_path / "run.png")]) == 2
    told = capsys.readouterr()
    assert "64  out of memory while loading" in told.out and "128  out of memory while loading" in told.out
    assert told.err.splitlines()[-1] == "error: No number of calls could be measured; 64: out of memory while loading."
    assert [row["failed"] for row in json.loads(path.read_text())["rows"]] == ["out of memory while loading"] * 2
    assert not (tmp_path / "run.png").exists()


@pytest.mark.gpu
def test_on_a_gpu_waiting_is_not_the_host_s_time_and_memory_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    flags = ["--device", "cuda", "--calls", "1,4", "--agree", "3", "--json", str(path)]
    assert main([*MINI, *flags]) == 0
    content = json.loads(path.read_text())
    assert content["machine"]["GPU"] and content["capacity_calls"] == 4
    for row in content["rows"]:
        ticks, memory = row["ticks"], row["memory"]
        for index, whole in enumerate(ticks["tick_ms"]):
            assert sum(values[index] for values in ticks["parts_ms"].values()) <= whole + SLACK_MS
            assert 0 < ticks["host_ms"][index] <= whole + 0.1
        assert 0 < memory["loaded"]["allocated_bytes"] <= memory["windows_full"]["reserved_bytes"]
        assert memory["windows_full"]["reserved_bytes"] <= memory["ended"]["peak_reserved_bytes"]
        assert memory["weights_bytes"] <= memory["loaded"]["allocated_bytes"]
        assert min(row["starts"][1]["new_ms"]) > 0


def test_the_flags_are_explained(capsys: Any) -> None:
    with pytest.raises(SystemExit) as left:
        main(["bench", "--help"])
    assert left.value.code == 0
    told = capsys.readouterr().out
    assert all(flag in told for flag in ("--calls", "--window", "--seconds", "--json", "--plot", "--from", "--fill"))
