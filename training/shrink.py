"""`python -m training.shrink FROM TO`: a checkpoint once more, its matrices kept as 8-bit rows: half the bytes.

In: a checkpoint directory in the Hub's layout. Out: another one, which the app reads as it reads the first.
Must not know: training.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from personaplex_app.model.checkpoint import WEIGHTS_FILE
from personaplex_app.model.row_scaled import SCALE, scaled_rows


def shrunk(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every matrix as int8 with its scales; what is no matrix stays as it is."""
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.ndim == 2:
            made[name], made[name + SCALE] = scaled_rows(tensor)
        else:
            made[name] = tensor
    return made


def restored(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The numbers that a shrunk file stands for."""
    return {
        name: tensor.float() * tensors[name + SCALE] if name + SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(SCALE)
    }


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("source", type=Path)
    options.add_argument("target", type=Path)
    chosen = options.parse_args(arguments)
    shutil.copytree(chosen.source, chosen.target)
    save_file(shrunk(load_file(chosen.source / WEIGHTS_FILE)), chosen.target / WEIGHTS_FILE)


if __name__ == "__main__":
    main()
