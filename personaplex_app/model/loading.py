"""Weights into modules: streamed from a checkpoint file, or made at random for the full-size stand-in.

In: a checked `Checkpoint` or a `LanguageConfig`, a device and a precision. Out: `Weights`.
Must not know: streaming state, prompts, sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

import torch
from safetensors import safe_open
from torch import Tensor, nn

from personaplex_app.errors import InvalidInput
from personaplex_app.model.byte_progress import ByteProgress, Report
from personaplex_app.model.checkpoint import Checkpoint, Placement
from personaplex_app.model.config import LanguageConfig
from personaplex_app.model.quantization import Quantization, QuantizedLinear, make_quantized
from personaplex_app.model.row_scaled import read_rows
from personaplex_app.model.transformer import DepthTransformer, TemporalTransformer


@dataclass(frozen=True)
class Weights:
    """Both transformers on one device in one precision."""

    temporal: TemporalTransformer
    depth: DepthTransformer
    config: LanguageConfig

    @property
    def device(self) -> torch.device:
        return self.temporal.text_emb.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.temporal.text_emb.weight.dtype


@dataclass(frozen=True)
class _Empty:
    """Modules that wait for their numbers.

    Attributes:
        shapes: of every matrix, table and norm, by name, in the order of the modules. parameters: the plain ones.
        quantized: the others.
    """

    modules: nn.ModuleDict
    shapes: dict[str, torch.Size]
    parameters: dict[str, nn.Parameter]
    quantized: dict[str, QuantizedLinear]


def _empty_modules(
    config: LanguageConfig, device: torch.device, dtype: torch.dtype, quantization: Quantization = "none"
) -> _Empty:
    with torch.device("meta"):
        modules = nn.ModuleDict({"temporal": TemporalTransformer(config), "depth": DepthTransformer(config)})
    shapes = {name: parameter.shape for name, parameter in modules.named_parameters()}
    temporal = cast(TemporalTransformer, modules["temporal"])
    quantized = make_quantized(temporal, quantization, device)
    modules.to(dtype).to_empty(device=device).requires_grad_(False).eval()
    temporal.audio_offsets = torch.arange(len(temporal.audio_offsets), device=device) * (config.audio_card + 1)
    named = {f"temporal.{name}": module for name, module in quantized.items()}
    return _Empty(modules, shapes, dict(modules.named_parameters()), named)


def _joined(modules: nn.ModuleDict, config: LanguageConfig) -> Weights:
    return Weights(cast(TemporalTransformer, modules["temporal"]), cast(DepthTransformer, modules["depth"]), config)


@torch.inference_mode()
def load_weights(
    checkpoint: Checkpoint,
    device: torch.device,
    dtype: torch.dtype,
    quantization: Quantization = "none",
    report: Report = lambda line: None,
) -> Weights:
    """Reads a checkpoint tensor by tensor straight into the modules; the file's steps 8-15 are never read.

    Raises InvalidInput where a tensor holds a number that is not finite. `report` takes a line about a second.
    """
    config = checkpoint.config.language
    empty = _empty_modules(config, device, dtype, quantization)
    for file, item in parts_of(checkpoint, report):
        source = read_source(file, item)
        if item.target in empty.quantized:
            source = check_finite(source.to(device, dtype), item.source, checkpoint)
            empty.quantized[item.target].fill(source)
        else:
            fill_part(empty.parameters[item.target], source, item, checkpoint)
    return _joined(empty.modules, config)


def parts_of(checkpoint: Checkpoint, report: Report = lambda line: None) -> Iterator[tuple[Any, Placement]]:
    """Every tensor to read, with the open file; opened anew for each part: what was read stays mapped till then."""
    every = list(checkpoint.placements())
    progress = ByteProgress("Loading weights", sum(_bytes_of(item) for item in every), report)
    for _, items in groupby(every, lambda item: item.target.split(".")[:3]):
        with safe_open(checkpoint.weights, framework="pt") as file:
            for item in items:
                yield file, item
                progress.add(_bytes_of(item))


def _bytes_of(item: Placement) -> int:
    """What a placement reads, at two bytes a number as the released file has it."""
    rows = item.shape[0] if item.rows is None else item.rows.stop - item.rows.start
    return 2 * rows * math.prod(item.shape[1:])


def read_source(file: Any, item: Placement) -> Tensor:
    """A tensor as the file has it, the rows that are asked for; one of 8-bit rows as numbers."""
    return read_rows(file, item.source, item.rows)


def fill_part(target: Tensor, source: Tensor, item: Placement, checkpoint: Checkpoint) -> None:
    """Copies a tensor of the file to where it lives; raises InvalidInput where a number is not finite."""
    source = source.reshape(-1, *target.shape[1:])
    part = target[item.into : item.into + len(source)]
    part.copy_(source)
    check_finite(part, item.source, checkpoint)


def check_finite(part: Tensor, name: str, checkpoint: Checkpoint) -> Tensor:
    """The tensor, or InvalidInput; makes nothing of its size."""
    if not torch.isfinite(torch.stack(torch.aminmax(part))).all():
        raise InvalidInput(f"{checkpoint.weights}: the tensor {name} holds a number that is not finite.")
    return part


@torch.inference_mode()
def random_weights(
    config: LanguageConfig,
    device: torch.device,
    dtype: torch.dtype,
    seed: int = 0,
    quantization: Quantization = "none",
) -> Weights:
    """Random weights of the given sizes, made in place; scaled so that activations stay near unit size.

    A seed stands for the same numbers in every quantization of a dtype.
    """
    empty = _empty_modules(config, device, dtype, quantization)
    generator = torch.Generator(device=device).manual_seed(seed)
    for name, shape in empty.shapes.items():
        if name in empty.quantized:
            source = torch.empty(shape, dtype=dtype, device=device)
            make_random(name, source, generator)
            empty.quantized[name].fill(source)
        else:
            make_random(name, empty.parameters[name], generator)
    return _joined(empty.modules, config)


def make_random(name: str, tensor: Tensor, generator: torch.Generator) -> None:
    """Fills one tensor in place, by what it is for."""
    if name.endswith("alpha"):
        tensor.fill_(1.0)
    else:
        tensor.normal_(0.0, 0.25 if "emb" in name else tensor.shape[-1] ** -0.5, generator=generator)
