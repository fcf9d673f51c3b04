"""Where and when a bench ran: date, processor, GPU, versions.

In: nothing. Out: words. torch is asked only where it is loaded already. Must not know: what is measured.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_CPU = Path("/proc/cpuinfo")


def now() -> str:
    """Date and time, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def describe_machine() -> dict[str, str]:
    """Processor, cores that may be used, Python, and what torch says of itself and of the GPU."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = {"CPU": _cpu(), "cores": str(cores), "Python": platform.python_version()}
    torch = sys.modules.get("torch")
    return machine if torch is None else machine | _torch(torch)


def _cpu() -> str:
    try:
        lines = _CPU.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def _torch(torch: Any) -> dict[str, str]:
    described = {"torch": str(torch.__version__), "threads": str(torch.get_num_threads())}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        described |= {"GPU": str(gpu.name), "GPU memory": f"{gpu.total_memory / 2**30:.0f} GiB"}
        described |= {"CUDA": str(torch.version.cuda)}
    return described
