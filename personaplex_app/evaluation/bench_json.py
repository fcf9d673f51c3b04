"""A bench run as a JSON file, everything raw; a run that was saved elsewhere is read back strictly.

In: a report, or a file. Out: a file, or a report. Must not know: how anything was measured.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

from personaplex_app.audio import FRAME_MS
from personaplex_app.errors import InvalidInput
from personaplex_app.evaluation.bench_figures import longest_run, spread_of
from personaplex_app.evaluation.bench_report import Report, Row

FORMAT = "personaplex_app bench"
VERSION = 1
DECIMALS = 4


def write_report(report: Report, path: Path) -> None:
    """Everything raw, and a summary for those who do not want to count themselves."""
    content = {"format": FORMAT, "version": VERSION, "frame_ms": FRAME_MS, "capacity_calls": report.capacity_calls}
    content |= _rounded(asdict(report))
    content["summary"] = [_rounded(summary_of(report, row)) for row in report.rows]
    path.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


def summary_of(report: Report, row: Row) -> dict[str, Any]:
    """A row's percentiles by part, its misses, and whether it keeps to the line."""
    if row.ticks is None:
        return {"calls": row.calls, "failed": row.failed, "meets_line": False}
    ticks = row.ticks
    named = {"tick": ticks.tick_ms, **ticks.parts_ms, "host": ticks.host_ms}
    spreads = {name: spread_of(values) for name, values in named.items()}
    return {
        "calls": row.calls,
        "failed": row.failed,
        "meets_line": report.meets_line(row),
        "misses": len(ticks.missed),
        "misses_in_a_row": longest_run(ticks.missed),
        **{name: asdict(spread) for name, spread in spreads.items() if spread is not None},
    }


def read_report(path: Path) -> Report:
    """A saved run; raises InvalidInput for whatever is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"There is no file {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON: {error}.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInput(f"{path} is not a file that `bench --json` wrote.")
    if content.get("version") != VERSION:
        raise InvalidInput(f"{path} is of version {content.get('version')}; this program reads version {VERSION}.")
    known = {one.name for one in fields(Report)}
    try:
        report: Report = _made(Report, {name: value for name, value in content.items() if name in known})
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidInput(f"{path} does not hold what `bench --json` writes: {error}.") from None
    return report


def _made(kind: Any, value: Any) -> Any:
    """`value` as a `kind`: dataclasses from objects, all else checked; raises TypeError that names the place."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _made(inner[0], value)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        if not isinstance(value, dict) or not set(value) <= set(hints):
            raise TypeError(f"{str(value)[:60]!r} is no {getattr(kind, '__name__', kind)}")
        return kind(**{name: _made(hints[name], one) for name, one in value.items()})  # type: ignore[operator]
    if origin is list and isinstance(value, list):
        return [_made(inner[0], one) for one in value]
    if origin is dict and isinstance(value, dict):
        return {name: _made(inner[1], one) for name, one in value.items()}
    wanted = (int, float) if kind is float else kind
    if origin is not None or not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{str(value)[:60]!r} stands where {kind} should")
    return value


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DECIMALS)
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value
