"""`bench`: how long ticks take with so many calls, what newcomers cost, what memory holds; or a saved run once more.

In: parsed flags. Out: a table on stdout, what is being done on stderr, and where asked for a JSON file and a plot.
Must not know: how anything is measured.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from personaplex_app.errors import InvalidInput
from personaplex_app.render_command import check_writable
from personaplex_app.settings import MOST_SLOTS, EngineChoice, add_model_flags, engine_choice, environment

if TYPE_CHECKING:
    from personaplex_app.engine.ports import Stepper
    from personaplex_app.evaluation.bench import Plan
    from personaplex_app.evaluation.bench_report import Forced, Report, Row

FULL = "full"
LONGEST_SECONDS = 3600
MOST_WINDOW = 1_000_000
MOST_AGREE_FRAMES = 10_000
QUANTIZED = ("int8", "int4")
MOST_FORCED_FRAMES = 1_000  # all of them fit the shortest window in use, and one pass


def add_bench(commands: Any) -> None:
    """Adds the subcommand with its flags."""
    parser = commands.add_parser("bench", help="measure ticks, starts and memory for so many calls")
    add_model_flags(parser, checkpoint="demo")
    parser.add_argument(
        "--calls", default="1", help="how many calls at once: numbers, separated by commas (default: 1)"
    )
    parser.add_argument("--window", default=FULL, help="positions before ticks are paced, or full (default: full)")
    parser.add_argument(
        "--seconds", type=float, default=30, help="of paced ticks for each number of calls (default: 30)"
    )
    parser.add_argument(
        "--fill",
        choices=("steps", "copy", "noise"),
        default="steps",
        help="copy: step one window only; noise: none",
    )
    parser.add_argument(
        "--agree", type=int, default=40, metavar="FRAMES", help="greedy frames to compare (default: 40)"
    )
    parser.add_argument(
        "--forced",
        type=int,
        default=0,
        metavar="FRAMES",
        help="greedy frames to compare with unquantized weights and past; where no quantizing is asked for, with the "
        "plain engine's (default: 0, none)",
    )
    parser.add_argument("--json", type=Path, metavar="F.json", help="keep everything, to be shown again with --from")
    parser.add_argument("--plot", type=Path, metavar="F.png", help="draw tick time against calls (needs matplotlib)")
    parser.add_argument("--from", dest="saved", type=Path, metavar="F.json", help="show a saved run; measures nothing")
    parser.set_defaults(run=run_bench_command)


def run_bench_command(flags: argparse.Namespace) -> None:
    """Checks what can be checked first, then measures, or reads a saved run, and shows it."""
    from personaplex_app.evaluation.bench_json import read_report
    from personaplex_app.evaluation.bench_table import table
    from personaplex_app.evaluation.plot import check_plot, draw_plot

    plan = read_plan(flags)
    if flags.plot is not None:
        _check_place(flags.plot)
        check_plot(flags.plot)
    report = read_report(flags.saved) if flags.saved is not None else _measured(flags, plan)
    sys.stdout.write(table(report))
    if flags.plot is not None and any(row.ticks for row in report.rows):
        sys.stdout.write(f"\n{flags.plot}: {draw_plot(report, flags.plot)}\n")
    if report.rows and not any(row.ticks for row in report.rows):
        raise InvalidInput(f"No number of calls could be measured; {report.rows[0].calls}: {report.rows[0].failed}.")


def read_plan(flags: argparse.Namespace) -> Plan:
    """Raises InvalidInput for whatever cannot be used."""
    from personaplex_app.evaluation.bench import Plan

    if not 0 < flags.seconds <= LONGEST_SECONDS:
        raise InvalidInput(f"--seconds must be more than 0 and at most {LONGEST_SECONDS}, not {flags.seconds:g}.")
    if not 0 <= flags.agree <= MOST_AGREE_FRAMES:
        raise InvalidInput(f"--agree must be from 0 to {MOST_AGREE_FRAMES}, not {flags.agree}.")
    if not 0 <= flags.forced <= MOST_FORCED_FRAMES:
        raise InvalidInput(f"--forced must be from 0 to {MOST_FORCED_FRAMES}, not {flags.forced}.")
    return Plan(read_calls(flags.calls), read_window(flags.window), flags.seconds, flags.fill, flags.agree)


def read_calls(text: str) -> tuple[int, ...]:
    """`1,8,64` as numbers, each once, in this order; raises InvalidInput."""
    wanted = f"--calls must be numbers from 1 to {MOST_SLOTS}, separated by commas"
    try:
        calls = [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"{wanted}, not {text[:60]!r}.") from None
    for count in calls:
        if not 1 <= count <= MOST_SLOTS:
            raise InvalidInput(f"{wanted}, not {count}.")
    return tuple(dict.fromkeys(calls))


def read_window(text: str) -> int | None:
    """Positions, or None for `full`; raises InvalidInput."""
    if text == FULL:
        return None
    try:
        window = int(text)
    except ValueError:
        window = 0
    if not 1 <= window <= MOST_WINDOW:
        raise InvalidInput(f"--window must be {FULL} or a number of positions from 1 on, not {text[:60]!r}.")
    return window


def _check_place(path: Path) -> None:
    check_writable(path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidInput(f"{path} cannot be written: permission denied.")


def _measured(flags: argparse.Namespace, plan: Plan) -> Report:
    """A whole run; with --json the file holds every row from the moment it is there."""
    from personaplex_app.evaluation.bench import run_bench
    from personaplex_app.evaluation.bench_json import write_report
    from personaplex_app.evaluation.bench_machine import describe_machine, now
    from personaplex_app.evaluation.bench_report import Report

    if flags.json is not None:
        _check_place(flags.json)
    choice = engine_choice(flags, environment(), None, "bench")
    report = Report(now(), _command(), {}, _settings(flags))

    def keep(row: Row) -> None:
        report.rows.append(row)
        report.machine = describe_machine()
        if flags.json is not None:
            write_report(report, flags.json)

    run_bench(_builder(choice), plan, _say, keep)
    if flags.forced:
        report.forced = _forced(choice, flags.forced)
        if flags.json is not None:
            write_report(report, flags.json)
    return report


def _forced(choice: EngineChoice, frames: int) -> Forced:
    """Against the same weights and past unquantized; where no quantizing was asked for, against the plain engine."""
    from personaplex_app.evaluation.bench_forced import measure_forced

    reference, against = replace(choice, plain=True), "the plain engine"
    if choice.precision in QUANTIZED or choice.kv_cache in QUANTIZED:
        whole = "bfloat16" if choice.precision in QUANTIZED else choice.precision
        reference, against = replace(choice, precision=whole, kv_cache="model"), "unquantized weights and past"
    _say(f"a talk of {frames} frames with {against}, then forced upon these")
    forced = measure_forced(lambda: _builder(reference)(1), lambda: _builder(choice)(1), frames)
    return replace(forced, against=against)


def _builder(choice: EngineChoice) -> Callable[[int], Stepper]:
    def build(calls: int) -> Stepper:
        from personaplex_app.assemble import build_stepper

        stepper: Stepper = build_stepper(replace(choice, slots=calls), _say)
        return stepper

    return build


def _settings(flags: argparse.Namespace) -> dict[str, str]:
    """What was asked for, in words."""
    left_out = ("command", "run", "calls", "json", "plot", "saved", "allow_surplus")
    return {name.replace("_", " "): _word(value) for name, value in vars(flags).items() if name not in left_out}


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)


def _command() -> str:
    return shlex.join(["python", "-m", "personaplex_app", *sys.argv[1:]])


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
