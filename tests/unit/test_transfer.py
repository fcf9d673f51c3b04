"""Copies between device and host go through a small buffer; every byte arrives, whatever the type and the length."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from personaplex_app.model.transfer import carry

BUFFER_BYTES = 24


def _random(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-(2**40), 2**40, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,), (12,), (13,), (2, 0, 3), (5, 7, 3)], ids=str)
def test_every_byte_arrives(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    source, buffer = _random(shape, dtype), torch.empty(BUFFER_BYTES, dtype=torch.uint8)
    target = torch.empty(shape, dtype=dtype)
    waits = []
    carry(source, target, buffer, lambda: waits.append(1))
    assert torch.equal(source, target)
    bufferfuls = -(-source.numel() * source.element_size() // BUFFER_BYTES)
    assert len(waits) == 2 * bufferfuls, "the buffer is filled anew only after it was emptied"


def test_the_buffer_is_waited_for_before_it_is_read_and_before_it_is_filled_again() -> None:
    """Copies that come only when they are waited for, as a GPU's do: `carry` must give the same."""
    late = _LateBuffer()
    source, target = torch.arange(40, dtype=torch.int64), torch.zeros(40, dtype=torch.int64)
    carry(source, target, late, late.arrive)  # type: ignore[arg-type]
    assert torch.equal(source, target) and not late.pending


class _LateBuffer:
    """A buffer into which and out of which nothing is copied before `arrive`."""

    def __init__(self) -> None:
        self.memory = torch.full((BUFFER_BYTES,), 255, dtype=torch.uint8)
        self.pending: list[tuple[Tensor, Tensor]] = []

    def __len__(self) -> int:
        return len(self.memory)

    def __getitem__(self, part: slice) -> _LatePart:
        return _LatePart(self, self.memory[part])

    def arrive(self) -> None:
        for target, source in self.pending:
            target.copy_(source)
        self.pending.clear()


class _LatePart:
    def __init__(self, buffer: _LateBuffer, memory: Tensor) -> None:
        self.buffer, self.memory = buffer, memory

    def copy_(self, source: Tensor, non_blocking: bool) -> None:
        assert non_blocking and not self.buffer.pending
        self.buffer.pending.append((self.memory, source))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        target, source = args
        assert function is Tensor.copy_ and kwargs == {"non_blocking": True} and not source.buffer.pending
        source.buffer.pending.append((target, source.memory))
        return target
