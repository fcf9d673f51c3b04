"""Weights of which a part lives in host memory, so that a GPU with less memory than the model runs it: `--cpu-offload`.

In: a checked `Checkpoint` or a `LanguageConfig`, a device, a precision, bytes of GPU memory that the weights may take.
Out: `Weights` whose temporal layers stream. Must not know: streaming state, prompts, sessions.

Every tensor goes from the file straight to where it lives; neither the GPU nor the host ever holds the model twice.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from personaplex_app.model.byte_progress import Report
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.config import LanguageConfig
from personaplex_app.model.host_memory import available_bytes, lock_pages
from personaplex_app.model.loading import (
    Weights,
    fill_part,
    load_weights,
    make_random,
    parts_of,
    random_weights,
    read_source,
)
from personaplex_app.model.offload_plan import OffloadPlan, check_host_room, plan_offload
from personaplex_app.model.streamed_layers import PackedLayer, StreamedLayers, staging_buffers
from personaplex_app.model.transformer import DepthTransformer, TemporalTransformer

HOST = torch.device("cpu")


def streamed_layers(weights: Weights) -> int:
    """How many of the temporal layers come from host memory in every step."""
    layers = weights.temporal.layers
    return len(layers.streamed) if isinstance(layers, StreamedLayers) else 0


@torch.no_grad()
def load_offloaded(
    checkpoint: Checkpoint,
    device: torch.device,
    dtype: torch.dtype,
    budget_bytes: int,
    report: Report = lambda line: None,
) -> Weights:
    """Reads a checkpoint with as many temporal layers on the device as the budget holds; the others stream.

    Args:
        budget_bytes: what all weights and the staging buffers may take of the device's memory.

    Raises InvalidInput: a budget too small for what must be there, too little host memory for the rest (both before
    anything is allocated), or a tensor that holds a number that is not finite.
    """
    config = checkpoint.config.language
    plan = _checked_plan(config, dtype, budget_bytes)
    if not plan.streamed:
        return load_weights(checkpoint, device, dtype, report=report)
    weights = _empty_weights(config, plan, device, dtype)
    parameters = _named_parameters(weights)
    for file, item in parts_of(checkpoint, report):
        fill_part(parameters[item.target], read_source(file, item), item, checkpoint)
    return weights


@torch.no_grad()
def random_offloaded(
    config: LanguageConfig, device: torch.device, dtype: torch.dtype, budget_bytes: int, seed: int = 0
) -> Weights:
    """The numbers of `random_weights`, laid out as by `load_offloaded`, with the same refusals.

    They are made on the device, those that stream too: for a moment each such tensor comes on top of the budget.
    """
    plan = _checked_plan(config, dtype, budget_bytes)
    if not plan.streamed:
        return random_weights(config, device, dtype, seed)
    weights = _empty_weights(config, plan, device, dtype)
    generator = torch.Generator(device=device).manual_seed(seed)
    for name, parameter in _named_parameters(weights).items():
        _make(name, parameter, device, generator)
    return weights


def _make(name: str, parameter: Tensor, device: torch.device, generator: torch.Generator) -> None:
    """One tensor's random numbers to where it lives."""
    away = parameter.device.type != device.type
    made = torch.empty_like(parameter, device=device) if away else parameter
    make_random(name, made, generator)
    if away:
        parameter.copy_(made)


def _checked_plan(config: LanguageConfig, dtype: torch.dtype, budget_bytes: int) -> OffloadPlan:
    plan = plan_offload(config, dtype.itemsize, budget_bytes)
    check_host_room(plan, available_bytes())
    return plan


def _empty_weights(config: LanguageConfig, plan: OffloadPlan, device: torch.device, dtype: torch.dtype) -> Weights:
    """All weights where they will live, not yet filled; a layer is never made anywhere else first."""
    with torch.device("meta"):
        temporal, depth = TemporalTransformer(replace(config, layers=0)), DepthTransformer(config)
    for part in (temporal, depth):
        part.to(dtype).to_empty(device=device).requires_grad_(False).eval()
    temporal.config = config
    temporal.audio_offsets = torch.arange(len(temporal.audio_offsets), device=device) * (config.audio_card + 1)
    temporal.layers = _layers(config, plan, device, dtype)
    return Weights(temporal, depth, config)


def _layers(config: LanguageConfig, plan: OffloadPlan, device: torch.device, dtype: torch.dtype) -> StreamedLayers:
    staging = staging_buffers(config, device, dtype)
    places = [HOST if index in plan.streamed else device for index in range(plan.layers)]
    packed = [PackedLayer(config, place, dtype) for place in places]
    memories = {index: packed[index].memory for index in plan.streamed}
    if device.type == "cuda":
        lock_pages(list(memories.values()))
    return StreamedLayers([one.layer for one in packed], memories, staging)


def _named_parameters(weights: Weights) -> dict[str, Tensor]:
    return dict(nn.ModuleDict({"temporal": weights.temporal, "depth": weights.depth}).named_parameters())
