"""How much host memory there is, and what happens where the system does not let it be locked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from personaplex_app.errors import InvalidInput
from personaplex_app.model import host_memory

MEMINFO = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    9000000 kB\n"


def _meminfo(directory: Path) -> Path:
    path = directory / "meminfo"
    path.write_text(MEMINFO)
    return path


def _cgroup(directory: Path, limit: str) -> Path:
    (directory / "memory.max").write_text(f"{limit}\n")
    (directory / "memory.current").write_text("3000000\n")
    (directory / "memory.stat").write_text("anon 1500000\nfile 1500000\ninactive_file 900000\nactive_file 100000\n")
    return directory


def test_what_the_system_says_is_available(tmp_path: Path) -> None:
    assert host_memory.available_bytes(_meminfo(tmp_path), tmp_path / "none") == 9_000_000 * 1024


def test_a_container_s_limit_counts_and_its_cache_gives_way(tmp_path: Path) -> None:
    assert host_memory.available_bytes(_meminfo(tmp_path), _cgroup(tmp_path, "5000000")) == 3_000_000


def test_a_container_without_a_limit(tmp_path: Path) -> None:
    assert host_memory.available_bytes(_meminfo(tmp_path), _cgroup(tmp_path, "max")) == 9_000_000 * 1024


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert host_memory.available_bytes(tmp_path / "none", tmp_path / "none") is None


def test_this_system_tells() -> None:
    available = host_memory.available_bytes()
    assert available is not None and available > 1 << 20


class _Driver:
    """A CUDA runtime that locks so many tensors, then no more."""

    def __init__(self, allows: int) -> None:
        self.allows = allows
        self.locked: dict[int, int] = {}

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        if len(self.locked) == self.allows:
            return 2
        self.locked[address] = size
        return 0

    def cudaHostUnregister(self, address: int) -> int:
        del self.locked[address]
        return 0


@pytest.fixture
def tensors() -> list[torch.Tensor]:
    return [torch.empty(1 << 20, dtype=torch.bfloat16) for _ in range(3)]


def _drive(monkeypatch: pytest.MonkeyPatch, allows: int) -> _Driver:
    driver = _Driver(allows)
    monkeypatch.setattr(host_memory, "torch", SimpleNamespace(cuda=SimpleNamespace(cudart=lambda: driver)))
    return driver


def test_exactly_the_tensors_are_locked_and_unlocked(
    monkeypatch: pytest.MonkeyPatch, tensors: list[torch.Tensor]
) -> None:
    driver = _drive(monkeypatch, 3)
    host_memory.lock_pages(tensors)
    assert driver.locked == {tensor.data_ptr(): 2 << 20 for tensor in tensors}
    host_memory.unlock_pages(tensors)
    assert driver.locked == {}


def test_where_the_system_refuses_nothing_stays_locked(
    monkeypatch: pytest.MonkeyPatch, tensors: list[torch.Tensor]
) -> None:
    driver = _drive(monkeypatch, 2)
    with pytest.raises(InvalidInput, match=r"does not let 0\.01 GiB of host memory be locked"):
        host_memory.lock_pages(tensors)
    assert driver.locked == {}
