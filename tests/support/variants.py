"""Variants of the miniature checkpoint for tests: another configuration, other tensors, a file less."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from personaplex_app.model.checkpoint import CONFIG_FILE, WEIGHTS_FILE

Tensors = dict[str, Tensor]


def copied(source: Path, target: Path) -> Path:
    """A checkpoint directory of its own; files are links until a test writes them anew."""
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(path.resolve(), place)
    return target


def replaced(path: Path, content: bytes) -> None:
    """Writes a file in place of a link, never through it."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def with_tensors(source: Path, target: Path, change: Callable[[Tensors], None]) -> Path:
    """A copy whose weights were changed."""
    directory = copied(source, target)
    tensors = load_file(directory / WEIGHTS_FILE)
    change(tensors)
    (directory / WEIGHTS_FILE).unlink()
    save_file(tensors, directory / WEIGHTS_FILE)
    return directory


def with_config(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy whose config.json was changed."""
    directory = copied(source, target)
    config = json.loads((directory / CONFIG_FILE).read_text())
    change(config)
    replaced(directory / CONFIG_FILE, json.dumps(config).encode())
    return directory
