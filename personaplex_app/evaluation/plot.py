"""Tick time against calls, as a picture and as a sentence that stands in for it.

In: a bench report. Out: a PNG or SVG file with that sentence in its metadata. matplotlib is imported when it is needed.
Must not know: how anything was measured.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from personaplex_app.audio import FRAME_MS
from personaplex_app.errors import InvalidInput
from personaplex_app.evaluation.bench_figures import percentile
from personaplex_app.evaluation.bench_report import Report, Row
from personaplex_app.evaluation.bench_table import PART_NAMES

SUFFIXES = (".png", ".svg")
NO_MATPLOTLIB = "A plot needs matplotlib, which is not installed here: python -m pip install matplotlib."
SHARES = {"p50": 0.5, "p99": 0.99}
# Colours that stay apart for eyes that see red and green alike (Okabe and Ito), and a shape for each line besides.
LOOKS = {
    "whole tick": ("#000000", "o"),
    "codec in": ("#56b4e9", "^"),
    "LM step": ("#0072b2", "s"),
    "codec out": ("#009e73", "v"),
    "host": ("#cc79a7", "D"),
}
LIMIT_COLOUR = "#d55e00"
ROOM_ABOVE = 1.06


def check_plot(path: Path) -> None:
    """Raises InvalidInput where no plot can be made, before anything is measured."""
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"A plot's name must end in .png or .svg; {path.name} does not.")
    if importlib.util.find_spec("matplotlib") is None:
        raise InvalidInput(NO_MATPLOTLIB)


def draw_plot(report: Report, path: Path) -> str:
    """Writes the picture; returns its description. Raises InvalidInput where no row has ticks."""
    check_plot(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = _measured(report)
    words = describe(report)
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_title(report))
    panels = figure.subplots(1, 2, sharey=True)
    for panel, (name, share) in zip(panels, SHARES.items(), strict=True):
        _draw_panel(panel, rows, name, share, report)
    panels[0].set_ylabel("milliseconds")
    panels[0].set_ylim(0, ROOM_ABOVE * _tallest_ms(rows))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(LOOKS), frameon=False)
    figure.savefig(path, dpi=120, metadata={"Title": _title(report), "Description": words})
    return words


def describe(report: Report) -> str:
    """The picture in words: what it shows, and every whole tick's p50 and p99."""
    figures = [
        f"{_calls(row)} p50 {_of(row, 'whole tick', 0.5):.1f} and p99 {_of(row, 'whole tick', 0.99):.1f} ms"
        for row in _measured(report)
    ]
    best = report.capacity_calls
    kept = "No number of calls tried" if best is None else f"Up to {best} {'call' if best == 1 else 'calls'}"
    verb = "keeps" if best in (None, 1) else "keep"
    line = f"{kept} {verb} to the line of {report.line.p50_ms:g} ms for p50 and {report.line.p99_ms:g} ms for p99"
    return f"Tick time against calls: {'; '.join(figures)}. {line}; a frame lasts {FRAME_MS:g} ms."


def _title(report: Report) -> str:
    where = report.machine.get("GPU") or report.machine.get("CPU", "")
    asked = [report.settings.get(name, "") for name in ("checkpoint", "precision")]
    window = f"window {report.settings.get('window', '')}"
    known = [word for word in (*asked, window, where, report.date[:10]) if word not in ("", "auto")]
    return f"Tick time against calls: {', '.join(known)}"


def _measured(report: Report) -> list[Row]:
    rows = sorted((row for row in report.rows if row.ticks), key=lambda row: row.calls)
    if not rows:
        raise InvalidInput("There is nothing to plot: no number of calls was measured.")
    return rows


def _values(row: Row, name: str) -> list[float]:
    assert row.ticks is not None
    parts = {words: row.ticks.parts_ms.get(part, []) for part, words in PART_NAMES.items()}
    return {"whole tick": row.ticks.tick_ms, "host": row.ticks.host_ms, **parts}[name]


def _of(row: Row, name: str, share: float) -> float:
    return percentile(_values(row, name), share)


def _tallest_ms(rows: list[Row]) -> float:
    """What the picture has to have room for: a frame, and the longest p99."""
    return max(FRAME_MS, *(_of(row, part, 0.99) for row in rows for part in LOOKS if _values(row, part)))


def _calls(row: Row) -> str:
    return f"{row.calls} {'call' if row.calls == 1 else 'calls'}"


def _draw_panel(panel: Any, rows: list[Row], name: str, share: float, report: Report) -> None:
    for part, (colour, mark) in LOOKS.items():
        shown = [row for row in rows if _values(row, part)]
        if shown:
            heights = [_of(row, part, share) for row in shown]
            panel.plot([row.calls for row in shown], heights, color=colour, marker=mark, label=part)
    limit = report.line.p50_ms if name == "p50" else report.line.p99_ms
    for height, words in ((FRAME_MS, f"{FRAME_MS:g} ms, a frame"), (limit, f"{limit:g} ms, the line for {name}")):
        panel.axhline(height, color=LIMIT_COLOUR, linestyle="--", linewidth=1)
        panel.annotate(
            words, (1, height), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize="small"
        )
    panel.set_xscale("log", base=2)
    panel.set_xticks([row.calls for row in rows], labels=[str(row.calls) for row in rows])
    panel.minorticks_off()
    panel.set_xlabel("calls at once")
    panel.set_title(name)
