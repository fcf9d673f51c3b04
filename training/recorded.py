"""A module's forward and backward pass as two CUDA graphs: of many small kernels the GPU else waits for each launch.

In: a module, tensors of the shape that it will always get. Out: a callable with the same results and gradients.
Must not know: what is trained.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def mixed(device: torch.device) -> torch.autocast:
    """bfloat16 where there is a GPU, without autocast's cache: what it keeps would outlive a recording."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)


def recorded(module: nn.Module, samples: tuple[Tensor, ...]) -> Callable[..., Any]:
    """The module, recorded where there is a GPU; as it is elsewhere, and where recording fails, which is said.

    Args:
        samples: what it is warmed up and recorded with; where one asks for its gradient, that is given, too.
    """
    if samples[0].device.type != "cuda":
        return module
    try:
        made: Callable[..., Any] = torch.cuda.make_graphed_callables(module, samples, allow_unused_input=True)
        return made
    except RuntimeError as error:
        warnings.warn(f"passes are launched one by one: {error}", stacklevel=2)
        return module
