"""What a bench run found: kept as JSON, read back, shown as a table and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from personaplex_app.errors import InvalidInput
from personaplex_app.evaluation import plot
from personaplex_app.evaluation.bench_json import read_report, write_report
from personaplex_app.evaluation.bench_report import (
    Agreement,
    Answers,
    GpuMemory,
    Joins,
    Memory,
    Report,
    Row,
    Start,
    Throughput,
    Ticks,
)
from personaplex_app.evaluation.bench_table import table
from personaplex_app.evaluation.plot import describe, draw_plot

GIB = 2**30
GPU = GpuMemory(2 * GIB, 3 * GIB, 4 * GIB, 5 * GIB)


def row_of(calls: int, tick_ms: float, missed: list[int] | None = None) -> Row:
    """A row with everything in it."""
    parts = {"codec_in": [1.0] * 100, "language": [tick_ms - 3] * 100, "codec_out": [1.5] * 100}
    return Row(
        calls,
        load_seconds=12.5,
        fill_seconds=33.0,
        ticks=Ticks(100, missed or [], [tick_ms] * 100, parts, [0.5] * 100, "by hand", 3000, 3100),
        throughput=Throughput(50, 1000.0, 80.0),
        joins=Joins(Answers(25, [], [3.0], [4.0]), Answers(25, [7], [5.0], [9.0]), 2, 199, [6.0, 8.0], True),
        starts=[Start(199, [20.0, 30.0, 25.0], [4.0, 5.0, 3.0])],
        agreement=Agreement(40, 40, 300, 320, 36),
        memory=Memory(GPU, GPU, GPU, GPU, 7 * GIB, 2**21, GIB),
        idle_seconds=2.0,
        idle_cpu_seconds=0.004,
    )


@pytest.fixture
def report() -> Report:
    """Two numbers of calls that were measured, the larger one too slow, and one that did not fit."""
    rows = [row_of(1, 7.25), row_of(64, 41.0, [3, 4]), Row(128, "out of memory while filling the windows")]
    settings = {"checkpoint": "random", "precision": "auto", "window": "full"}
    return Report("2026-11-30 12:00 UTC", "python -m personaplex_app bench", {"CPU": "C", "GPU": "G"}, settings, rows)


def test_a_saved_run_is_the_same_run(report: Report, tmp_path: Path) -> None:
    write_report(report, tmp_path / "a.json")
    assert read_report(tmp_path / "a.json") == report


def test_the_file_has_a_summary_for_programs(report: Report, tmp_path: Path) -> None:
    write_report(report, tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    one, many, failed = content["summary"]
    assert content["capacity_calls"] == 1 and content["frame_ms"] == 80
    assert one["meets_line"] and one["tick"] == {"p50_ms": 7.25, "p90_ms": 7.25, "p99_ms": 7.25, "max_ms": 7.25}
    assert many["misses"] == 2 and many["misses_in_a_row"] == 2 and not many["meets_line"]
    assert failed == {"calls": 128, "failed": "out of memory while filling the windows", "meets_line": False}


def _changed(tmp_path: Path, report: Report, **changes: Any) -> Path:
    write_report(report, tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "a.json").write_text(json.dumps(content | changes))
    return tmp_path / "a.json"


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "something else"},
        {"version": 99},
        {"rows": "none"},
        {"rows": [{"calls": "1"}]},
        {"rows": [{"calls": True}]},
        {"rows": [{"no": 1}]},
        {"rows": [{}]},
        {"rows": [{"calls": 1, "ticks": {"frames": 1}}]},
        {"machine": ["x"]},
        {"machine": {"CPU": 3}},
        {"date": None},
    ],
    ids=str,
)
def test_what_is_no_saved_run_is_refused_in_a_sentence(report: Report, tmp_path: Path, changes: Any) -> None:
    path = _changed(tmp_path, report, **changes)
    with pytest.raises(InvalidInput, match=r"a\.json") as refused:
        read_report(path)
    assert "\n" not in refused.value.sentence and len(refused.value.sentence) < 300


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_junk_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "junk.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"junk\.json"):
        read_report(tmp_path / "junk.json")


def test_the_table_says_it_all(report: Report) -> None:
    text = table(report)
    for words in (
        "python -m personaplex_app bench",
        "CPU C, GPU G",
        "3000..3100     100       0         0   7.25",
        "128  out of memory while filling the windows",
        "1.00 / 1.00",
        "38.00 / 38.00",
        "2.00 / 3.00",
        "100.0 %",
        "93.8 %",
        "0.004 of 2",
        "25.00  30.00       4.00  5.00",
        "never two in a row): 1 call.",
    ):
        assert words in text, words
    assert max(len(line) for line in text.splitlines()) <= 140


def test_the_table_of_a_run_where_nothing_worked_is_short(report: Report) -> None:
    report.rows = report.rows[2:]
    text = table(report)
    assert "none of those tried" in text and "Parts" not in text and "start on the idle" not in text


def test_the_picture_carries_its_words(report: Report, tmp_path: Path) -> None:
    words = draw_plot(report, tmp_path / "a.png")
    assert words == describe(report)
    assert "1 call p50 7.2 and p99 7.2 ms; 64 calls p50 41.0 and p99 41.0 ms" in words
    assert "Up to 1 call keeps to the line of 40 ms for p50 and 64 ms for p99" in words
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.width > 1000 and picture.info["Description"] == words
        assert picture.info["Title"] == "Tick time against calls: random, window full, G, 2026-11-30"


def test_a_picture_of_vectors_holds_every_line_by_name(report: Report, tmp_path: Path) -> None:
    draw_plot(report, tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    for words in (
        "whole tick",
        "codec in",
        "LM step",
        "codec out",
        "host",
        "80 ms, a frame",
        "40 ms, the line for p50",
    ):
        assert words in drawn, words
    assert "64 ms, the line for p99" in drawn and "calls at once" in drawn


@pytest.mark.parametrize(("tick_ms", "top_ms"), [(30.0, 80), (200.0, 200)])
def test_a_picture_has_room_for_every_tick(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tick_ms: float, top_ms: float
) -> None:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    limits = []
    saves = Figure.savefig

    def save(figure: Figure, *given: Any, **named: Any) -> None:
        saves(figure, *given, **named)
        limits.extend(panel.get_ylim() for panel in figure.axes if isinstance(panel, Axes))

    monkeypatch.setattr(Figure, "savefig", save)
    report.rows = [row_of(1, 7.25), row_of(64, tick_ms)]
    draw_plot(report, tmp_path / "a.png")
    assert limits == [(0, pytest.approx(1.06 * top_ms))] * 2


def test_no_picture_of_nothing(report: Report, tmp_path: Path) -> None:
    report.rows = report.rows[2:]
    with pytest.raises(InvalidInput, match="nothing to plot"):
        draw_plot(report, tmp_path / "a.png")


def test_without_matplotlib_a_sentence_says_how_to_get_it(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match="pip install matplotlib"):
        draw_plot(report, tmp_path / "a.png")
