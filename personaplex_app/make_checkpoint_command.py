"""`make-checkpoint DIR`: random weights in the layout of the released ones, to try every path without them.

In: parsed flags. Out: a directory for `--checkpoint`; what is being done on stderr.
Must not know: how a checkpoint is made.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from personaplex_app.controls import parse_seed
from personaplex_app.settings import cache_directory, environment

NAMES = ("demo", "mini", "random", "hub")  # what --checkpoint takes for something else than a directory
SIZES = ("full", "mini")


def add_make_checkpoint(commands: Any) -> None:
    """Adds the subcommand with its flags."""
    parser = commands.add_parser("make-checkpoint", help="random weights in the released layout, for trials")
    parser.add_argument("directory", type=Path, metavar="DIR", help="a new directory, or an empty one")
    parser.add_argument("--size", choices=SIZES, default="full", help="full: 17 GB; mini: 12 MB (default: full)")
    parser.add_argument("--seed", default="0", help="a whole number; empty or -1 draws one (default: 0)")
    parser.set_defaults(run=run_make_checkpoint)


def run_make_checkpoint(flags: argparse.Namespace) -> None:
    """Makes the checkpoint and says how to use it."""
    seed = parse_seed(flags.seed)
    from personaplex_app.model.byte_progress import size_words, time_words
    from personaplex_app.model.stand_in import full_stand_in, make_checkpoint, mini_stand_in

    stand_in = full_stand_in() if flags.size == "full" else mini_stand_in()
    began = time.monotonic()
    with _termination_unwinds():
        size = make_checkpoint(flags.directory, stand_in, seed, cache_directory(environment()), _report)
    sys.stdout.write(
        f"{flags.directory}: {size_words(size)} of random weights, seed {seed}, made in "
        f"{time_words(time.monotonic() - began)}. It proves loading, memory and speed, and says nothing of quality. "
        f"Use it with --checkpoint {shlex.quote(_as_directory(flags.directory))}\n"
    )


def _as_directory(directory: Path) -> str:
    """A path that `--checkpoint` takes for no name of its own."""
    return f"./{directory}" if str(directory) in NAMES else str(directory)


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def _termination_unwinds() -> Iterator[None]:
    """SIGTERM and a closed terminal end the command as Ctrl-C does, so that what is half written is deleted."""

    def end(number: int, frame: Any) -> None:
        sys.exit(128 + number)

    ends = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is not signal.SIG_IGN]  # nohup
    before = {one: signal.signal(one, end) for one in ends}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
