"""8-bit and 4-bit weights: the temporal transformer's matrices and the text head, quantized as they are read.

In: matrices in the checkpoint's precision. Out: modules that hold them small and multiply by them; torchao finds scales
and rounds. Embeddings, norms, the depth transformer and the codec are never quantized.
Must not know: files, streaming state, sessions.

int8: one scale a row. int4: a scale and a zero for every 128 columns of a row, multiplied by torch's own kernel
(tinygemm). Shapes: N outputs, K inputs.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from personaplex_app.errors import InvalidInput

Quantization = Literal["none", "int8", "int4"]
QUANTIZED = ("in_proj", "out_proj", "gate_in", "gate_out", "text_linear")
GROUP_COLUMNS = 128
INNER_TILES = 8  # how tinygemm wants its weights laid out
PIECE_ROWS = 2048  # quantized at a time, so that loading needs little room beside the weights
HIGHEST = 127
SMALLEST_SCALE = 1e-12  # torchao's own bound is coarser than the steps of real weights in bfloat16


@dataclass(frozen=True)
class Int8Matrix:
    """values: int8 [N, K]. scales: float32 [N]."""

    values: Tensor
    scales: Tensor

    def dense(self, dtype: torch.dtype) -> Tensor:
        """[N, K], what the numbers stand for."""
        return (self.values.float() * self.scales[:, None]).to(dtype)


@dataclass(frozen=True)
class Int4Matrix:
    """packed: in tinygemm's layout. scales_and_zeros: bfloat16 [K / 128, N, 2]."""

    packed: Tensor
    scales_and_zeros: Tensor

    def times(self, x: Tensor) -> Tensor:
        """x [b, K] in bfloat16 to [b, N]."""
        if x.device.type == "cpu":
            return torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, GROUP_COLUMNS, self.scales_and_zeros)
        return torch.ops.aten._weight_int4pack_mm(x, self.packed, GROUP_COLUMNS, self.scales_and_zeros)


class QuantizedLinear(nn.Module):
    """A matrix without bias, made empty: `fill` quantizes what a loader has read."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.in_features, self.out_features = inputs, outputs

    def fill(self, source: Tensor) -> None:
        """Quantizes [N, K]."""
        raise NotImplementedError

    def allocate(self, device: torch.device) -> None:
        """Makes the tensors on a device."""
        raise NotImplementedError


class Int8Linear(QuantizedLinear):
    """8 bits a weight, in any precision of the activations."""

    def allocate(self, device: torch.device) -> None:
        """int8 [N, K] and float32 [N]."""
        self.values = torch.zeros((self.out_features, self.in_features), dtype=torch.int8, device=device)
        self.scales = torch.zeros(self.out_features, dtype=torch.float32, device=device)

    @property
    def weight(self) -> Int8Matrix:
        """The matrix as the fast engine takes it."""
        return Int8Matrix(self.values, self.scales)

    def fill(self, source: Tensor) -> None:
        """Quantizes [N, K], some rows at a time."""
        primitives = _torchao("quant_primitives")
        for first in range(0, len(source), PIECE_ROWS):
            piece = source[first : first + PIECE_ROWS].to(self.values.device, torch.float32)
            block, ends = (1, self.in_features), (-HIGHEST, HIGHEST)
            scales, zeros = primitives.choose_qparams_affine(
                piece, primitives.MappingType.SYMMETRIC, block, torch.int8, *ends, eps=SMALLEST_SCALE
            )
            rounded = primitives.quantize_affine(piece, block, scales, zeros, torch.int8, *ends)
            self.values[first : first + len(piece)] = rounded
            self.scales[first : first + len(piece)] = scales.flatten()

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.dense(x.dtype))


class Int4Linear(QuantizedLinear):
    """4 bits a weight; activations in bfloat16."""

    def allocate(self, device: torch.device) -> None:
        """Scales and zeros; `fill` makes the rest. Raises InvalidInput for sizes that have no such form."""
        rows, columns = self.out_features, self.in_features
        if columns % GROUP_COLUMNS or rows % 8:
            raise InvalidInput(
                f"A matrix of {rows} x {columns} has no 4-bit form: its width must be a multiple of {GROUP_COLUMNS}."
            )
        self.packed = torch.empty(0, device=device)
        groups = columns // GROUP_COLUMNS
        self.scales_and_zeros = torch.zeros((groups, rows, 2), dtype=torch.bfloat16, device=device)

    @property
    def weight(self) -> Int4Matrix:
        """The matrix as the fast engine takes it."""
        return Int4Matrix(self.packed, self.scales_and_zeros)

    def fill(self, source: Tensor) -> None:
        """Quantizes [N, K], some rows at a time; all of them are packed at once."""
        quantize = _torchao("utils").groupwise_affine_quantize_tensor
        codes = []
        for first in range(0, len(source), PIECE_ROWS):
            piece = source[first : first + PIECE_ROWS].to(self.scales_and_zeros.device, torch.bfloat16)
            numbers, pairs = quantize(piece, 4, groupsize=GROUP_COLUMNS)
            codes.append(numbers)
            self.scales_and_zeros[:, first : first + len(piece)] = pairs
        self.packed = _pack(torch.cat(codes))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1]).to(torch.bfloat16)
        return self.weight.times(flat).to(x.dtype).view(*x.shape[:-1], self.out_features)


def _pack(codes: Tensor) -> Tensor:
    """4-bit numbers as torchao leaves them (CPU: int32 [N, K]; CUDA: uint8 [N, K / 2]) in tinygemm's layout."""
    if codes.device.type == "cpu":
        return torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    return torch.ops.aten._convert_weight_to_int4pack(codes, INNER_TILES)


def _torchao(name: str) -> Any:
    """A module of torchao's, which takes seconds to import: only where something is quantized."""
    try:
        return importlib.import_module(f"torchao.quantization.{name}")
    except ImportError:
        raise InvalidInput("8-bit and 4-bit weights need torchao: pip install torchao.") from None


KINDS: dict[str, type[QuantizedLinear]] = {"int8": Int8Linear, "int4": Int4Linear}


def make_quantized(temporal: nn.Module, quantization: Quantization, device: torch.device) -> dict[str, QuantizedLinear]:
    """Puts empty quantized matrices in the place of a temporal transformer's; by name, as its parameters are called.

    Args:
        temporal: still without memory of its own (on torch's meta device).
    """
    if quantization == "none":
        return {}
    made = {}
    for name, module in list(temporal.named_modules()):
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in QUANTIZED:
            one = KINDS[quantization](module.in_features, module.out_features)
            one.allocate(device)
            parent = temporal.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], one)
            made[f"{name}.weight"] = one
    return made
