"""Temporal layers of which some live in host memory: going through them brings each to the device in time.

In: layers, each laid out in one piece of memory. Out: the same layers in order, ready to compute with.
Must not know: what a layer computes, files, how many layers fit.

Two staging buffers take turns: while one layer computes, the next that streams is copied into the other. The order
is a circle, so during the depth transformer and between two steps the first layers of the next step already come.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from personaplex_app.model.config import LanguageConfig
from personaplex_app.model.host_memory import unlock_pages
from personaplex_app.model.offload_plan import STAGING_BUFFERS, aligned_bytes, layer_bytes
from personaplex_app.model.transformer import Layer


class PackedLayer:
    """One layer whose tensors lie one behind another in one piece of memory, made empty.

    Attributes:
        memory: [n] all of it. layer: a module whose parameters are views of it.
    """

    def __init__(self, config: LanguageConfig, device: torch.device, dtype: torch.dtype) -> None:
        with torch.device("meta"):
            self.layer = Layer(config.dim, config.hidden)
        size = layer_bytes(config, dtype.itemsize)
        self.memory = torch.empty(size // dtype.itemsize, dtype=dtype, device=device)
        start = 0
        for name, parameter in list(self.layer.named_parameters()):
            view = self.memory[start : start + parameter.numel()].view(parameter.shape)
            owner, _, leaf = name.rpartition(".")
            setattr(self.layer.get_submodule(owner), leaf, nn.Parameter(view, requires_grad=False))
            start += aligned_bytes(parameter.numel(), dtype.itemsize) // dtype.itemsize
        self.layer.eval()


class Staging:
    """Room for one layer on the device, filled again and again.

    Args:
        stream: where copies run on a GPU; None on a CPU, where a copy is done when `fill` returns.
    """

    def __init__(self, room: PackedLayer, stream: torch.cuda.Stream | None) -> None:
        self.room = room
        self._stream = stream
        self._filled = torch.cuda.Event() if stream else None

    def fill(self, memory: Tensor) -> None:
        """Asks for a copy of a layer's memory, to begin when all that was asked of the current stream is done."""
        if self._stream is None or self._filled is None:
            self.room.memory.copy_(memory)
            return
        self._stream.wait_stream(torch.cuda.current_stream(self.room.memory.device))
        with torch.cuda.stream(self._stream):
            self.room.memory.copy_(memory, non_blocking=True)
            self._filled.record(self._stream)

    def ready(self) -> Layer:
        """The layer asked for last; what is asked of the current stream from now on runs after its copy."""
        if self._filled is not None:
            torch.cuda.current_stream(self.room.memory.device).wait_event(self._filled)
        return self.room.layer


def staging_buffers(config: LanguageConfig, device: torch.device, dtype: torch.dtype) -> list[Staging]:
    """The buffers that take turns; on a GPU one stream copies into all of them."""
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    return [Staging(PackedLayer(config, device, dtype), stream) for _ in range(STAGING_BUFFERS)]


class StreamedLayers(nn.ModuleList):
    """All temporal layers as modules where they live; iterating gives them on the device.

    Args:
        layers: resident and streamed ones, in order. memories: of those that stream, by index, locked where a GPU
            copies from them. staging: taken over.

    Attributes:
        streamed: which layers stream, in order. fills: how many copies were asked for so far.
    """

    def __init__(self, layers: Sequence[Layer], memories: Mapping[int, Tensor], staging: Sequence[Staging]) -> None:
        super().__init__(layers)
        self.streamed = tuple(sorted(memories))
        self.fills = 0
        self._memories = [memories[index] for index in self.streamed]
        self._staging = staging
        self._coming: deque[tuple[int, Staging]] = deque()  # place among the streamed ones, where it will stand
        if staging[0].room.memory.is_cuda:
            weakref.finalize(self, unlock_pages, self._memories).atexit = False

    def __iter__(self) -> Iterator[nn.Module]:
        """One pass in order. Each layer is good until the next one is asked for."""
        if not self._coming or self._coming[0][0] != 0 or len(self._coming) != len(self._staging):
            self._coming.clear()  # the first pass, or one was broken off
            for place, staging in enumerate(self._staging):
                self._fetch(place, staging)
        for index, layer in enumerate(self._modules.values()):
            if index not in self.streamed:
                assert layer is not None
                yield layer
                continue
            place, staging = self._coming.popleft()
            yield staging.ready()
            self._fetch(place + len(self._staging), staging)

    def _fetch(self, place: int, staging: Staging) -> None:
        place %= len(self._memories)
        staging.fill(self._memories[place])
        self._coming.append((place, staging))
        self.fills += 1
