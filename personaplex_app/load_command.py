"""`load --calls N --url URL`: how many calls a server carries, measured by real clients.

In: parsed flags. Out: a table on stdout and, where asked for, all figures as JSON.
Must not know: how a call is made.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from personaplex_app.errors import InvalidInput
from personaplex_app.render_command import check_writable

if TYPE_CHECKING:
    from personaplex_app.audio import Pcm
    from personaplex_app.evaluation.calls import CallPlan
    from personaplex_app.evaluation.cpu import Spent

KIND_CHOICES = ("socket", "webrtc", "mixed")
MOST_CALLS = 1_000
SOON_SECONDS = 0.5
STEADY_SECONDS = 1.5  # after the last call has begun


def add_load(commands: Any) -> None:
    """Adds the subcommand with its flags."""
    parser = commands.add_parser("load", help="many calls at once: how many a server carries, and where its time goes")
    parser.add_argument("--url", required=True, help="the page's address; an echo engine gives delays, others none")
    parser.add_argument("--calls", type=int, required=True, help="how many calls talk at the same time")
    parser.add_argument("--kind", choices=KIND_CHOICES, default="socket", help="how the sound travels (socket)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long all of them talk together (20)")
    parser.add_argument("--stagger", type=float, default=0.25, help="seconds between one beginning and the next (0.25)")
    parser.add_argument("--in", dest="input", type=Path, metavar="F.wav", help="speech under the bursts; more than a "
                        "minute needs it, or the server takes the callers for absent")  # fmt: skip
    parser.add_argument("--auth", metavar="USER:PASS", help="where the server asks for a name and a password")
    parser.add_argument("--processes", type=int, help="of callers (default: one a core)")
    parser.add_argument("--pid", type=int, help="the server's process, where it runs on this machine: watch its CPU")
    parser.add_argument("--json", type=Path, metavar="F.json", help="all figures, each call's included")
    parser.set_defaults(run=run_load)


def run_load(flags: argparse.Namespace) -> None:
    """Checks the flags, makes the calls, tells the figures; raises InvalidInput for what cannot be used."""
    from personaplex_app.client.address import parse_address, parse_login
    from personaplex_app.evaluation.load_report import Load, as_json, as_text

    _check(flags)
    flags.url, flags.auth = parse_address(flags.url).page, parse_login(flags.auth)
    processes = min(flags.calls, flags.processes or os.cpu_count() or 1)
    results, cpu_seconds, spent = _measure(flags, processes, _speech(flags.input))
    load = Load(flags.url, flags.seconds, results, processes, cpu_seconds, spent)
    if flags.json is not None:
        flags.json.write_text(json.dumps(as_json(load), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(as_text(load) + "\n")


def _check(flags: argparse.Namespace) -> None:
    from personaplex_app.evaluation.cpu import look

    if not 1 <= flags.calls <= MOST_CALLS:
        raise InvalidInput(f"--calls must be from 1 to {MOST_CALLS}, not {flags.calls}.")
    if not 3 <= flags.seconds <= 24 * 3600:
        raise InvalidInput(f"--seconds must be from 3 to a day, not {flags.seconds:g}.")
    if not 0 <= flags.stagger <= 60:
        raise InvalidInput(f"--stagger must be from 0 to 60, not {flags.stagger:g}.")
    if flags.processes is not None and not 1 <= flags.processes <= 256:
        raise InvalidInput(f"--processes must be from 1 to 256, not {flags.processes}.")
    if flags.json is not None:
        check_writable(flags.json)
    if flags.pid is not None:
        look(flags.pid)


def _speech(path: Path | None) -> Pcm | None:
    from personaplex_app.sound_files import read_sound

    return None if path is None else read_sound(path)


def _measure(flags: argparse.Namespace, processes: int, speech: Pcm | None) -> tuple[Any, float, Spent | None]:
    from personaplex_app.evaluation.crew import Crew

    kinds = {"mixed": ("socket", "webrtc")}.get(flags.kind, (flags.kind,))
    watched: list[Spent] = []
    with Crew(processes, kinds, speech) as crew:
        plans = _plans(flags, kinds, time.monotonic() + SOON_SECONDS)
        results, cpu_seconds = crew.hold(plans, lambda: _watch(flags.pid, plans, watched))
    return results, cpu_seconds, watched[0] if watched else None


def _plans(flags: argparse.Namespace, kinds: tuple[str, ...], start: float) -> list[CallPlan]:
    """All end together, `--seconds` after the last has begun."""
    from personaplex_app.evaluation.calls import CallPlan

    begins = [start + number * flags.stagger for number in range(flags.calls)]
    ends_at = begins[-1] + flags.seconds
    return [
        CallPlan(number, kinds[number % len(kinds)], flags.url, flags.auth, at, ends_at)
        for number, at in enumerate(begins)
    ]


def _watch(pid: int | None, plans: list[CallPlan], watched: list[Spent]) -> None:
    """The server's CPU while all calls talk."""
    from personaplex_app.evaluation.cpu import look, spent

    if pid is None:
        return
    time.sleep(max(0.0, plans[-1].begins_at + STEADY_SECONDS - time.monotonic()))
    before = look(pid)
    time.sleep(max(0.0, plans[-1].ends_at - 0.2 - time.monotonic()))
    watched.append(spent(before, look(pid)))
