"""A thread's name where the system shows it, so that whoever looks from outside sees which thread works.

Must not know: what the threads do.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

MOST_CHARACTERS = 15  # what the Linux kernel keeps


def name_thread(name: str) -> None:
    """Names the calling thread for `top -H` and /proc; does nothing where there is no /proc."""
    with contextlib.suppress(OSError):
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name[:MOST_CHARACTERS])
