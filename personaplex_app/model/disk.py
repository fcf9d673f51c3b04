"""How much room a disk has for a folder that need not exist yet.

In: a path. Out: bytes. Must not know: what will be written.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def nearest_place(folder: Path) -> Path:
    """The folder, or the nearest above it that can be seen; without rights nothing further down can."""
    there = folder.absolute()
    while not os.path.exists(there) and there != there.parent:
        there = there.parent
    return there


def free_bytes(folder: Path) -> int:
    """Free bytes of the disk on which the folder lies or would lie."""
    return shutil.disk_usage(nearest_place(folder)).free
