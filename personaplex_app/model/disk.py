"""How much room a disk has for a folder that need not exist yet.

In: a path. Out: bytes. Must not know: what will be written.
"""

from __future__ import annotations

import shutil
from pathlib import Path


def free_bytes(folder: Path) -> int:
    """Free bytes of the disk on which the folder lies or would lie."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return shutil.disk_usage(there).free
