"""A saved slot: language model and codec, on the device or in host memory, and the way between.

In: copies that the stepper made. Out: the same copies elsewhere. Must not know: how a slot steps, who waits for it.
It meets `engine.ports.SavedSlot` without importing it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from personaplex_app.model.codec import CodecRow
from personaplex_app.model.state import RowState
from personaplex_app.model.transfer import Transfer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SlotState:
    """A copy of all that a slot holds; steps leave it as it is.

    Attributes:
        transfer: the way to the host and back, or None where the device is the host.
        ready: recorded on the stepping stream after the copy was asked for.
    """

    language: RowState
    codec: CodecRow
    transfer: Transfer | None = None
    ready: torch.cuda.Event | None = None

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return self.language.bytes + sum(tensor.numel() * tensor.element_size() for tensor in self.codec)

    @property
    def on_host(self) -> bool:
        """Whether it lies in the host's memory."""
        return self.language.kv.device.type == "cpu"

    def to_host(self) -> SlotState:
        """The same in the host's memory, complete when this returns; any thread may call."""
        if self.transfer is None or self.on_host:
            return self
        with self.transfer.to_host(self.ready) as move:
            return self._moved(move)

    def to_device(self) -> SlotState:
        """The same on the device, complete when this returns; any thread may call.

        Where the device has no room for it, the copy itself: a slot then takes it straight from the host, more slowly.
        """
        if self.transfer is None or not self.on_host:
            return self
        try:
            with self.transfer.to_device() as move:
                return self._moved(move)
        except torch.OutOfMemoryError:
            log.warning("no room on the device for a parked talk beside its slot; restoring from the host")
            return self

    def note_use(self) -> None:
        """The current stream reads these tensors: their memory is not given to another until it has."""
        if not self.on_host:
            stream = torch.cuda.current_stream(self.language.kv.device)
            for tensor in self._tensors():
                tensor.record_stream(stream)

    def _moved(self, move: Callable[[Tensor], Tensor]) -> SlotState:
        return SlotState(self.language.moved(move), [move(tensor) for tensor in self.codec], self.transfer)

    def _tensors(self) -> Iterator[Tensor]:
        yield from self.language.tensors
        yield from self.codec
