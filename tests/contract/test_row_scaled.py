"""A checkpoint whose matrices are kept as 8-bit rows loads as what they stand for, or is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.variants import Tensors, with_tensors

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import open_checkpoint
from personaplex_app.model.loading import load_weights
from personaplex_app.model.row_scaled import SCALE, scaled_rows

CPU = torch.device("cpu")


def _scale_all(tensors: Tensors) -> None:
    for name, tensor in list(tensors.items()):
        if tensor.ndim == 2:
            tensors[name], tensors[name + SCALE] = scaled_rows(tensor)


def test_every_number_comes_back_within_half_a_step(mini_directory: Path, tmp_path: Path) -> None:
    scaled = open_checkpoint(with_tensors(mini_directory, tmp_path / "scaled", _scale_all))
    plain = open_checkpoint(mini_directory)
    assert scaled.weights.stat().st_size < 0.4 * plain.weights.stat().st_size  # the test miniature is float32
    ours, theirs = load_weights(scaled, CPU, torch.float32), load_weights(plain, CPU, torch.float32)
    for part in ("temporal", "depth"):
        wanted = dict(getattr(theirs, part).named_parameters())
        for name, parameter in getattr(ours, part).named_parameters():
            reference = wanted[name]
            step = reference.abs().amax(-1, keepdim=True) / 127 if reference.ndim == 2 else torch.zeros(())
            assert ((parameter - reference).abs() <= 0.501 * step + 1e-9).all(), name


def _without_scale(tensors: Tensors) -> None:
    _scale_all(tensors)
    del tensors["emb.3.weight" + SCALE]


def _with_a_short_scale(tensors: Tensors) -> None:
    _scale_all(tensors)
    tensors["emb.3.weight" + SCALE] = tensors["emb.3.weight" + SCALE][:5].clone()


@pytest.mark.parametrize("change", [_without_scale, _with_a_short_scale], ids=["no scale", "short scale"])
def test_rows_without_their_scales_are_refused(mini_directory: Path, tmp_path: Path, change) -> None:
    directory = with_tensors(mini_directory, tmp_path / "variant", change)
    with pytest.raises(InvalidInput, match=r"emb\.3\.weight is I8; expected is one of"):
        open_checkpoint(directory)
