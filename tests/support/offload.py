"""A checkpoint with more layers than the miniature, for what streams: random numbers under the file's own names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from personaplex_app.model.checkpoint import WEIGHTS_FILE, Checkpoint, placements
from personaplex_app.model.config import CheckpointConfig, LanguageConfig
from personaplex_app.model.offload_plan import gpu_weight_bytes

LAYERS = 7
KEPT = 2


def written(directory: Path, base: CheckpointConfig, language: LanguageConfig, dtype: torch.dtype) -> Checkpoint:
    """Writes weights of these sizes; all else is as the base says."""
    generator = torch.Generator().manual_seed(1)
    tensors = {}
    for item in placements(language, 8):
        if item.source not in tensors:
            numbers = torch.randn(item.shape, generator=generator) * item.shape[-1] ** -0.5
            tensors[item.source] = (numbers + 1.0 if item.source.endswith("alpha") else numbers).to(dtype)
    save_file(tensors, directory / WEIGHTS_FILE)
    return Checkpoint(directory, replace(base, language=language), 8)


def seven_layers(directory: Path, base: CheckpointConfig) -> Checkpoint:
    """The miniature's sizes with seven layers, float32."""
    return written(directory, base, replace(base.language, layers=LAYERS, context=160), torch.float32)


def budget(config: LanguageConfig, dtype: torch.dtype, kept: int) -> int:
    """What just suffices to keep so many layers resident."""
    return gpu_weight_bytes(config, dtype.itemsize, kept)
