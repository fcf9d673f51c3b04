"""The command line: flags in, files out, one sentence and exit code 2 for whatever cannot be used.

Must not know: how anything is done; `serve` alone imports the web.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from personaplex_app.errors import PersonaplexError, ServerFault
from personaplex_app.render_command import add_render


def build_parser() -> argparse.ArgumentParser:
    """All subcommands with their flags."""
    parser = argparse.ArgumentParser(prog="python -m personaplex_app", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add_render(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0 done, 2 bad input, 1 a fault of ours."""
    parsed = build_parser().parse_args(arguments)
    try:
        parsed.run(parsed)
    except ServerFault as fault:
        print(f"error: {fault.sentence}", file=sys.stderr)
        return 1
    except PersonaplexError as error:
        print(f"error: {error.sentence}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0
