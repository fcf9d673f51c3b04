"""The page's entry point, on a laptop, a Hugging Face Space or a GPU pod: `python app.py`."""

from __future__ import annotations

import logging
import sys

from personaplex_app.errors import PersonaplexError
from personaplex_app.settings import environment, parse_serve


def main() -> int:
    """Reads settings, serves; bad settings give one sentence and exit code 2."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        settings = parse_serve(sys.argv[1:], environment())
        from personaplex_app.web.server import serve

        serve(settings)
    except PersonaplexError as error:
        print(f"error: {error.sentence}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
