"""The command line: flags in, files out, one sentence and exit code 2 for whatever cannot be used.

Must not know: how anything is done; `serve` alone imports the web.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import NoReturn

from personaplex_app.bench_command import add_bench
from personaplex_app.doctor_command import add_doctor
from personaplex_app.errors import PersonaplexError, ServerFault
from personaplex_app.load_command import add_load
from personaplex_app.make_checkpoint_command import add_make_checkpoint
from personaplex_app.out_of_memory import is_out_of_memory, memory_sentence
from personaplex_app.render_command import add_render
from personaplex_app.settings import add_model_flags, add_serve_flags, environment, read_settings
from personaplex_app.talk_command import add_talk


class OneSentenceParser(argparse.ArgumentParser):
    """Says what is wrong with a flag in one sentence; `--help` shows the rest."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (try --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """All subcommands with their flags."""
    parser = OneSentenceParser(prog="python -m personaplex_app", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add_render(commands)
    add_talk(commands)
    add_bench(commands)
    add_load(commands)
    add_make_checkpoint(commands)
    add_doctor(commands)
    serve = commands.add_parser("serve", help="the page (what app.py runs)")
    add_serve_flags(serve)
    add_model_flags(serve)
    serve.set_defaults(run=run_serve)
    return parser


def run_serve(flags: argparse.Namespace) -> None:
    """Serves the page until it is stopped."""
    settings = read_settings(flags, environment())
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for chatty in ("httpx", "aioice"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    from personaplex_app.web.starting import open_and_serve

    open_and_serve(settings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0 done, 2 bad input, 1 a fault of ours or what `doctor` found wrong."""
    parsed = build_parser().parse_args(arguments)
    try:
        return int(parsed.run(parsed) or 0)
    except ServerFault as fault:
        print(f"error: {fault.sentence}", file=sys.stderr)
        return 1
    except PersonaplexError as error:
        print(f"error: {error.sentence}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename or 'a file'} cannot be used: {error.strerror or error}.", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"error: {memory_sentence('The memory ran out')}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
