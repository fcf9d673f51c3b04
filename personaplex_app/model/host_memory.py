"""The host's memory: how much of it is available, and locking pages so that a GPU copies from them while it works.

In: tensors in host memory. Out: bytes; the same tensors, locked. Must not know: what the tensors mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from personaplex_app.errors import InvalidInput

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def available_bytes(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Host memory that can be taken without swapping, within the container's limit; None where nobody tells."""
    known = [size for size in (_meminfo_bytes(meminfo), _cgroup_bytes(cgroup)) if size is not None]
    return min(known, default=None)


def _meminfo_bytes(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _cgroup_bytes(directory: Path) -> int | None:
    """The limit less what is taken; files that were only read give way and count as free."""
    try:
        limit = (directory / "memory.max").read_text(encoding="ascii").strip()
        taken = int((directory / "memory.current").read_text(encoding="ascii"))
        lines = (directory / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    files = sum(int(line.split()[1]) for line in lines if line.startswith(("active_file ", "inactive_file ")))
    return None if limit == "max" else int(limit) - taken + files


def lock_pages(tensors: Sequence[Tensor]) -> None:
    """Locks the tensors' own pages for the current GPU: torch's pinned memory would be rounded up to a power of two.

    Raises InvalidInput where the system does not allow so much; none of them is locked then.
    """
    for index, tensor in enumerate(tensors):
        failed = torch.cuda.cudart().cudaHostRegister(tensor.data_ptr(), tensor.nbytes, 0)
        if int(failed):
            unlock_pages(tensors[:index])
            size = sum(tensor.nbytes for tensor in tensors) / 2**30
            raise InvalidInput(
                f"The system does not let {size:.2f} GiB of host memory be locked for the GPU (CUDA error "
                f"{int(failed)}): raise the limit on locked memory, or take a larger GPU."
            )


def unlock_pages(tensors: Sequence[Tensor]) -> None:
    """Undoes `lock_pages`, before the memory goes back to the system."""
    for tensor in tensors:
        torch.cuda.cudart().cudaHostUnregister(tensor.data_ptr())
