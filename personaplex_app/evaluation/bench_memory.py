"""Memory: what torch's allocator holds, what the process holds, what tensors take.

In: nothing, or an object full of tensors. Out: bytes. Imports nothing heavy by itself.
Must not know: steppers, engines.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from personaplex_app.evaluation.bench_report import GpuMemory
from personaplex_app.out_of_memory import is_out_of_memory

__all__ = ["forget_peaks", "give_back_memory", "gpu_memory", "host_bytes", "is_out_of_memory", "tensor_bytes"]

_STATUS = Path("/proc/self/status")


def host_bytes() -> int | None:
    """Memory of the process in the host; None where the system does not tell."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")]
    return found[0] if found else None


def gpu_memory() -> GpuMemory | None:
    """What torch's allocator holds now and held at most since `forget_peaks`; None where no GPU is in use."""
    cuda = _cuda()
    if cuda is None:
        return None
    now, peak = (
        (cuda.memory_allocated(), cuda.memory_reserved()),
        (cuda.max_memory_allocated(), cuda.max_memory_reserved()),
    )
    return GpuMemory(*now, *peak)


def forget_peaks() -> None:
    """Peaks count from now on."""
    cuda = _cuda()
    if cuda is not None:
        cuda.reset_peak_memory_stats()


def give_back_memory() -> None:
    """What nobody refers to goes back to the GPU."""
    gc.collect()
    cuda = _cuda()
    if cuda is not None:
        cuda.empty_cache()


def _cuda() -> Any:
    """torch.cuda where it is in use by now."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_available() and cuda.is_initialized() else None


def tensor_bytes(thing: Any) -> int:
    """Bytes of all tensors that can be reached from here, each storage once."""
    return _tensor_bytes(thing, {})


def _tensor_bytes(thing: Any, seen: dict[Any, Any]) -> int:
    if id(thing) in seen:
        return 0
    seen[id(thing)] = thing
    if hasattr(thing, "untyped_storage"):
        storage = thing.untyped_storage()
        counted = ("storage", storage.data_ptr()) in seen
        seen["storage", storage.data_ptr()] = storage
        return 0 if counted else int(storage.nbytes())
    if isinstance(thing, Mapping):
        return sum(_tensor_bytes(one, seen) for one in thing.values())
    if isinstance(thing, list | tuple):
        return sum(_tensor_bytes(one, seen) for one in thing)
    return _tensor_bytes(vars(thing), seen) if _may_hold_tensors(thing) else 0


def _may_hold_tensors(thing: Any) -> bool:
    module = type(thing).__module__.split(".")[0]
    return (
        module in ("personaplex_app", "moshi", "torch") and hasattr(thing, "__dict__") and not isinstance(thing, type)
    )
