"""Host memory that this process holds, and the most that it held at once while a block ran."""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path
from typing import Self


class HostPeak:
    """`bytes` is what the peak was above the beginning, known when the block is over; pages of read files count."""

    bytes: int

    def __enter__(self) -> Self:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free in the heap would be taken without being seen
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts from here
        self._before = resident_bytes()
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = _status("VmHWM") - self._before


def resident_bytes() -> int:
    """Host memory of this process now."""
    return _status("VmRSS")


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
