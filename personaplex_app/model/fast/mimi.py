"""Mimi's step in few launches: a frame to codes and codes to a frame, for rows that come, rest and leave on their own.

In: a loaded MimiModel. Out: what its streaming `encode` and `decode` give, in float32, from kernels of our own.
Must not know: the language model, sessions, CUDA graphs.

All tensors that a step touches are made beforehand and stay where they are, and no step asks the host: a step can be
recorded as a CUDA graph, once for each number of rows. Run each shape once before recording: that compiles its kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from moshi.models.compression import MimiModel
from torch import Tensor

from personaplex_app.model.fast.mimi_reading import CannotRunFast, read_weights
from personaplex_app.model.fast.mimi_weights import MimiWeights

if TYPE_CHECKING:
    from personaplex_app.model.fast.mimi_directions import DecodeStep, EncodeStep

__all__ = ["CannotRunFast", "MimiStep"]


class MimiStep:
    """Streaming Mimi for `slots` rows; a new row is as fresh.

    Raises CannotRunFast where Triton is missing, where there is no GPU, and for a codec of another kind.
    """

    def __init__(self, mimi: MimiModel, slots: int) -> None:
        self._start(read_weights(mimi), slots)

    def another(self, slots: int) -> MimiStep:
        """A step with rows of its own over the same weights."""
        twin = MimiStep.__new__(MimiStep)
        twin._start(self.weights, slots)
        return twin

    @torch.no_grad()
    def _start(self, weights: MimiWeights, slots: int) -> None:
        self.slots = slots
        self.weights = weights
        self._encode, self._decode = _directions(weights, slots)

    @torch.inference_mode()
    def encode(self, frames: Tensor, live: Tensor) -> Tensor:
        """One frame for each of the first b rows.

        Args:
            frames: float32 [b, samples of a frame].
            live: bool [b]; rows that are not live keep their state, and what they give means nothing.
        Returns:
            Codes int64 [b, codebooks], in a place that the next `encode` overwrites.
        """
        return self._encode.run(frames, live)

    @torch.inference_mode()
    def decode(self, codes: Tensor, live: Tensor) -> Tensor:
        """One frame for each of the first b rows.

        Args:
            codes: int64 [b, codebooks], each a valid one.
            live: bool [b], as for `encode`.
        Returns:
            float32 [b, samples of a frame], in a place that the next `decode` overwrites.
        """
        return self._decode.run(codes, live)

    def rows(self, slot: int) -> Iterator[Tensor]:
        """Views of all that a row keeps, both directions, always in the same order. All zeros is a fresh row."""
        yield from self._encode.state.rows(slot)
        yield from self._decode.state.rows(slot)


def _directions(weights: MimiWeights, slots: int) -> tuple[EncodeStep, DecodeStep]:
    """Triton is imported here: an app without it runs on, over moshi's own modules."""
    try:
        import triton  # type: ignore[import-untyped]

        from personaplex_app.model.fast.codec_kernels_products import many_positions
        from personaplex_app.model.fast.mimi_directions import DecodeStep, EncodeStep
    except ImportError as error:
        raise CannotRunFast(f"The fast codec step needs Triton: {error}.") from error
    if weights.books.device.type != "cuda" and isinstance(many_positions, triton.JITFunction):
        raise CannotRunFast("The fast codec step needs an NVIDIA GPU, or Triton's interpreter (TRITON_INTERPRET=1).")
    return EncodeStep(weights, slots), DecodeStep(weights, slots)
