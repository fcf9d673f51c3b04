"""What the bench says of memory and of the machine, with torch's own names for both."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from personaplex_app.evaluation.bench_machine import describe_machine, now
from personaplex_app.evaluation.bench_memory import (
    forget_peaks,
    give_back_memory,
    gpu_memory,
    host_bytes,
    is_out_of_memory,
    tensor_bytes,
)
from personaplex_app.evaluation.bench_report import GpuMemory

MEMORY = {"memory_allocated": 1, "memory_reserved": 2, "max_memory_allocated": 3, "max_memory_reserved": 4}


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried"),
            True,
        ),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_which_errors_say_that_memory_has_run_out(error: BaseException, is_so: bool) -> None:
    assert is_out_of_memory(error) is is_so


def test_what_torch_says_when_a_cpu_has_no_more_memory_is_understood() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(refused.value)


def test_every_storage_counts_once() -> None:
    whole = torch.zeros(8, dtype=torch.float32)
    module = torch.nn.Linear(2, 3)
    things = {
        "a": whole,
        "views": [whole[:2], whole[4:]],
        "again": (whole,),
        "module": module,
        "text": "x",
        "none": None,
    }
    assert tensor_bytes(things) == 4 * (8 + 2 * 3 + 3)


def test_the_process_has_a_size_and_no_gpu_s_memory_here() -> None:
    assert (host_bytes() or 0) > 10 << 20
    if not torch.cuda.is_available():
        assert gpu_memory() is None


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """torch.cuda as it is where a GPU is in use, and what was asked of it; every name is one that torch has."""
    asked: list[str] = []
    for name, value in {"is_available": True, "is_initialized": True, "current_device": 0, **MEMORY}.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    for name in ("reset_peak_memory_stats", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda name=name: asked.append(name))
    gpu = SimpleNamespace(name="A GPU", total_memory=140 << 30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    return asked


def test_what_the_gpu_s_allocator_holds(cuda: list[str]) -> None:
    assert gpu_memory() == GpuMemory(1, 2, 3, 4)
    forget_peaks()
    give_back_memory()
    assert cuda == ["reset_peak_memory_stats", "empty_cache"]


def test_the_gpu_is_named_where_it_is_in_use(cuda: list[str]) -> None:
    machine = describe_machine()
    assert (machine["GPU"], machine["GPU memory"]) == ("A GPU", "140 GiB") and "CUDA" in machine


def test_a_gpu_that_is_not_in_use_is_not_named(cuda: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    machine = describe_machine()
    assert "GPU" not in machine and gpu_memory() is None
    assert int(machine["cores"]) >= 1 and machine["torch"] == torch.__version__ and machine["CPU"]


def test_the_date_says_its_zone() -> None:
    assert now().endswith(" UTC") and len(now()) == len("2026-11-30 12:00 UTC")
