"""Mimi for a GPU: the same as `model/codec.py` from outside, over `MimiStep`.

In: float32 frames [B, 1920], codes [B, 8]. Out: codes, frames. Rows beyond the slots are padding of a bucket.
Must not know: the language model, sessions. moshi's modules are not kept: the weights are on the device once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from personaplex_app.model.codec import Codec, CodecRow
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.fast.mimi import MimiStep


class FastCodec:
    """Mimi for the slots' independent streams over a step of as many rows or more."""

    def __init__(self, step: MimiStep, config: CheckpointConfig, slots: int, device: torch.device) -> None:
        self.step = step
        self.config = config
        self.slots = slots
        self.device = device
        self._live = torch.ones(step.slots, dtype=torch.bool, device=device)

    @classmethod
    def of(cls, codec: Codec, rows: int) -> FastCodec:
        """From a loaded codec; raises `CannotRunFast` where that cannot be."""
        return cls(MimiStep(codec.mimi, rows), codec.config, codec.slots, codec.device)

    def another(self, slots: int) -> FastCodec:
        """A codec with streams of its own over the same weights."""
        return FastCodec(self.step.another(slots), self.config, slots, self.device)

    def set_live(self, live: list[bool]) -> None:
        """Which rows take part from now on; the state of the others rests."""
        self._live[: len(live)].copy_(torch.tensor(live))

    def encode(self, frames: Tensor) -> Tensor:
        """float32 [b, 1920] to codes int64 [b, 8]."""
        return self.step.encode(frames.contiguous(), self._live[: len(frames)]).clone()

    def decode(self, codes: Tensor) -> Tensor:
        """Codes int64 [b, 8] to float32 [b, 1920]."""
        return self.step.decode(codes.contiguous(), self._live[: len(codes)]).clone()

    @torch.inference_mode()
    def reset(self, slot: int) -> None:
        """A row as new: both directions forget."""
        for tensor in self.step.rows(slot):
            tensor.zero_()

    @torch.inference_mode()
    def save(self, slot: int) -> CodecRow:
        """A copy of a row's state, both directions."""
        return [tensor.clone() for tensor in self.step.rows(slot)]

    @torch.inference_mode()
    def restore(self, slot: int, row: CodecRow) -> None:
        """Puts a copy into a row."""
        for tensor, saved in zip(self.step.rows(slot), row, strict=True):
            tensor.copy_(saved)
