"""The most host memory that this process held at once while a block ran, beyond what it held before."""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path
from typing import Self


class HostPeak:
    """`bytes` is the peak, known when the block is over; pages of files that were only read count too."""

    bytes: int

    def __enter__(self) -> Self:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free in the heap would be taken without being seen
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts from here
        self._before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = _status("VmHWM") - self._before


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
