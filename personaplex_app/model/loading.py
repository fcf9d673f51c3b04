"""Weights into modules: streamed from a checkpoint file, or made at random for the full-size stand-in.

In: a checked `Checkpoint` or a `LanguageConfig`, a device and a precision. Out: `Weights`.
Must not know: streaming state, prompts, sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from safetensors import safe_open
from torch import Tensor, nn

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.config import LanguageConfig
from personaplex_app.model.quantization import Quantization, QuantizedLinear, make_quantized
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
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, quantization: Quantization = "none"
) -> Weights:
    """Reads a checkpoint tensor by tensor straight into the modules; the file's steps 8-15 are never read.

    Raises InvalidInput where a tensor holds a number that is not finite.
    """
    config = checkpoint.config.language
    empty = _empty_modules(config, device, dtype, quantization)
    with safe_open(checkpoint.weights, framework="pt") as file:
        for item in checkpoint.placements():
            source: Tensor = file.get_slice(item.source)[item.rows] if item.rows else file.get_tensor(item.source)
            if item.target in empty.quantized:
                part = source.to(device, dtype)
                empty.quantized[item.target].fill(part)
            else:
                target = empty.parameters[item.target]
                source = source.reshape(-1, *target.shape[1:])
                part = target[item.into : item.into + len(source)]
                part.copy_(source)
            if not torch.isfinite(part).all():
                raise InvalidInput(f"{checkpoint.weights}: the tensor {item.source} holds a number that is not finite.")
    return _joined(empty.modules, config)


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
            empty.quantized[name].fill(source.normal_(0.0, shape[-1] ** -0.5, generator=generator))
            continue
        parameter = empty.parameters[name]
        if name.endswith("alpha"):
            parameter.fill_(1.0)
        elif "emb" in name:
            parameter.normal_(0.0, 0.25, generator=generator)
        else:
            parameter.normal_(0.0, parameter.shape[-1] ** -0.5, generator=generator)
    return _joined(empty.modules, config)
