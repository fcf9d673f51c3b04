"""Mimi's weights as the fast step's products want them: one kind of product for all convolutions and linear layers.

In: tensors. Out: frozen groups of them.
Must not know: moshi's modules, kernels, slots, streaming state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor


@dataclass(frozen=True)
class Product:
    """A linear map of windows over columns, float32.

    Attributes:
        weight: [outputs, taps * width]; the oldest column's inputs come first.
        bias: [outputs] or None.
        width: channels of an input column. dilation: columns from one tap to the next.
        past: columns that stand in front of a frame's own. stride: columns from one window to the next.
        spread: columns that one window's outputs make.
        norm: whether the inputs are brought to mean 0 and variance 1 first. gelu: whether GELU follows.
    """

    weight: Tensor
    bias: Tensor | None
    width: int
    dilation: int = 1
    past: int = 0
    stride: int = 1
    spread: int = 1
    norm: bool = False
    gelu: bool = False

    @property
    def outputs(self) -> int:
        """Channels of an output column."""
        return self.weight.shape[0] // self.spread

    @cached_property
    def across(self) -> Tensor:
        """The weight as [taps * width, outputs]: products of many positions read it so."""
        return self.weight.T.contiguous()


@dataclass(frozen=True)
class Layer:
    """A transformer layer's four products around its attention."""

    project: Product
    join: Product
    widen: Product
    narrow: Product


@dataclass(frozen=True)
class Transformer:
    """A transformer: products that enter and leave it where its width is another, layers, and attention's sizes."""

    enter: Product | None
    layers: tuple[Layer, ...]
    leave: Product | None
    heads: int
    context: int
    rates: Tensor


@dataclass(frozen=True)
class Block:
    """A residual block of two products, or one product alone."""

    first: Product
    second: Product | None = None


@dataclass(frozen=True)
class Encoder:
    """From sound to projected latents."""

    blocks: tuple[Block, ...]
    transformer: Transformer
    project: Product


@dataclass(frozen=True)
class Decoder:
    """From codes to sound; `books` hold entries that the output projections have been applied to."""

    books: Tensor
    spread: Tensor
    transformer: Transformer
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class MimiWeights:
    """All of Mimi; `books` [codebooks, bins, D] are the entries as encoding searches them."""

    encoder: Encoder
    decoder: Decoder
    books: Tensor
    semantic: int
    frame_samples: int
