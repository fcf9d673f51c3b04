"""`python -m personaplex_app`."""

import sys

from personaplex_app.cli import main

sys.exit(main())
