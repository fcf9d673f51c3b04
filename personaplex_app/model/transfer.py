"""Between a GPU's memory and the host's, beside the stream that steps.

In: tensors on one side. Out: the same on the other; every byte of it stands there when a crossing ends.
Must not know: what the tensors mean.

The way leads through a small page-locked buffer: only such memory is copied while the GPU goes on with other work, and
locking pages anew for each copy would hold up every caller of the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

BUFFER_BYTES = 32 << 20


def carry(source: Tensor, target: Tensor, buffer: Tensor, arrived: Callable[[], None]) -> None:
    """Copies tensors of one shape and type, a bufferful at a time.

    Args:
        buffer: uint8 [n]. arrived: waits until what was asked for last has been copied.
    """
    coming, going = _as_bytes(source), _as_bytes(target)
    for start in range(0, len(coming), len(buffer)):
        part = coming[start : start + len(buffer)]
        buffer[: len(part)].copy_(part, non_blocking=True)
        arrived()
        going[start : start + len(part)].copy_(buffer[: len(part)], non_blocking=True)
        arrived()


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.view(-1).view(torch.uint8)


class Lane:
    """One stream and one buffer, for one crossing at a time; any thread may cross."""

    def __init__(self, device: torch.device, buffer_bytes: int) -> None:
        self._stream = torch.cuda.Stream(device)
        self._buffer = torch.empty(buffer_bytes, dtype=torch.uint8, pin_memory=True)
        self._lock = threading.Lock()

    @contextmanager
    def crossing(self, to: torch.device, after: torch.cuda.Event | None = None) -> Iterator[Callable[[Tensor], Tensor]]:
        """Gives what copies a tensor to the other side; what it reads, it reads after the event."""

        def move(tensor: Tensor) -> Tensor:
            target = torch.empty(tensor.shape, dtype=tensor.dtype, device=to)
            carry(tensor.contiguous(), target, self._buffer, self._stream.synchronize)
            return target

        with self._lock, torch.inference_mode(), torch.cuda.stream(self._stream):
            if after is not None:
                self._stream.wait_event(after)
            yield move


class Transfer:
    """A GPU's ways to the host and back: who comes back never waits for those who are put away.

    Args:
        device: a CUDA device. The buffers are made now, before anybody talks.
    """

    def __init__(self, device: torch.device, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._device = device
        self._out, self._in = Lane(device, buffer_bytes), Lane(device, buffer_bytes)

    @contextmanager
    def to_host(self, after: torch.cuda.Event | None) -> Iterator[Callable[[Tensor], Tensor]]:
        """Copies into ordinary host memory what the device holds after the event."""
        with self._out.crossing(torch.device("cpu"), after) as move:
            yield move

    @contextmanager
    def to_device(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """Copies onto the device; whoever reads them on another stream must say so with `record_stream`."""
        with self._in.crossing(self._device) as move:
            yield move
