"""The page's entry point, on a laptop, a Hugging Face Space or a GPU pod: `python app.py`."""

from __future__ import annotations

import sys

from personaplex_app.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
