"""The device a step runs on, and its state on disk between two calls.

In: modules and optimizers. Out: a device; `Progress` read back.
Must not know: what is trained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn


@dataclass
class Progress:
    """How far a training is.

    Attributes:
        step: optimizer steps done. spent: seconds, over all calls. marks: steps at which something began.
    """

    step: int = 0
    spent: float = 0.0
    marks: dict[str, int] = field(default_factory=dict)


def prepare(seed: int) -> torch.device:
    """The GPU where there is one; quick convolutions, random numbers from the seed."""
    torch.manual_seed(seed)
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def exact() -> None:
    """Convolutions and products as a call has them: codes must not depend on rounding."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False


def without_waiting(tensor: Tensor, device: torch.device) -> Tensor:
    """A host's tensor on the device, copied while the host goes on."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def saved(path: Path, training: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Writes the state whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    state = {
        "training": training.state_dict(),
        "optimizer": optimizer.state_dict(),
        "progress": (progress.step, progress.spent, progress.marks),
    }
    torch.save(state, partial)
    partial.replace(path)


def resumed(path: Path, training: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> Progress:
    """Reads the state back into both; a fresh start where there is none."""
    if not path.exists():
        return Progress()
    state = torch.load(path, map_location=device, weights_only=True)
    training.load_state_dict(state["training"])
    optimizer.load_state_dict(state["optimizer"])
    step, spent, marks = state["progress"]
    return Progress(step, spent, marks)
