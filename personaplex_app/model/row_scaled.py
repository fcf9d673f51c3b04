"""Matrices that a file keeps as 8-bit rows, each row with a scale of its own: half the bytes of bfloat16.

In: an open file, names; or matrices to be kept so. Out: matrices as numbers again, in float32.
Must not know: modules. The packaged miniature is kept so; the released weights are not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

SCALE = ".row_scale"  # the name of a matrix's scales, [rows, 1], is its own with this behind it
LARGEST = 127
SCALE_DTYPES = {"BF16", "F16", "F32"}

Header = dict[str, tuple[tuple[int, ...], str]]


def with_scales_folded(found: Header) -> Header:
    """A file's tensors by name, each scaled matrix as the floating-point one that it stands for.

    What lacks its scales, or has them in another shape, stays as it is.
    """
    folded = dict(found)
    for name, (shape, dtype) in found.items():
        scale_shape, scale_dtype = found.get(name + SCALE, ((), ""))
        if dtype == "I8" and len(shape) == 2 and scale_shape == (shape[0], 1) and scale_dtype in SCALE_DTYPES:
            folded[name] = (shape, scale_dtype)
            del folded[name + SCALE]
    return folded


def read_rows(file: Any, name: str, rows: slice | None) -> Tensor:
    """A tensor of an open safetensors file, or some rows of it; a scaled one comes as float32."""
    part = _read(file, name, rows)
    if part.dtype != torch.int8:
        return part
    return part.float() * _read(file, name + SCALE, rows).float()


def _read(file: Any, name: str, rows: slice | None) -> Tensor:
    read: Tensor = file.get_tensor(name) if rows is None else file.get_slice(name)[rows]
    return read


def scaled_rows(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix as int8 and its scales, float32 [rows, 1]; a row's largest number becomes 127."""
    wide = matrix.float()
    scale = (wide.abs().amax(1, keepdim=True) / LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
    return (wide / scale).round().to(torch.int8), scale
