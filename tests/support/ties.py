"""Codes that differ rightly: float64 finds two entries of a codebook as near as float32 can tell.

The random miniature's last codebooks hold entries 1e-6 apart: which of two is nearer depends on how a CPU rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from personaplex_app.model.codec import Codec

Near = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # (latent, what is left of it, one entry, other entry)
TIE = 1e-5  # of the squared lengths: latents of two float32 implementations differ by some 1e-6
ROUNDING = 2e-6  # of the latent's length: the most that was seen is 8e-7


def near_by_rest(whole: Tensor, rest: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """As near to what is left of a latent, where much is left."""
    gap = (rest - one).square().sum() - (rest - other).square().sum()
    return gap.abs() < TIE * (rest.square().sum() + one.square().sum())


def near_by_whole(whole: Tensor, rest: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """As near to a latent that is rounded, where as little is left as rounding takes."""
    return ((rest - one).norm() - (rest - other).norm()).abs() < ROUNDING * whole.norm()


def rounds_as_reference() -> bool:
    """Whether this is the kind of CPU on which the reference ran, where its codes come out to the last one."""
    cpu = Path("/proc/cpuinfo")
    is_amd = cpu.exists() and "AuthenticAMD" in cpu.read_text()
    return is_amd and torch.backends.cpu.get_cpu_capability() == "AVX512"


def count_ties(quantizer: Any, latent: Tensor, wanted: Tensor, codes: Tensor, near: Near) -> tuple[int, int]:
    """How many codes [8] of one latent [D] differ though either is right, and how many differ otherwise."""
    ties = wrong = first = 0
    for half in (quantizer.rvq_first, quantizer.rvq_rest):
        differ = (wanted[first : first + half.n_q] != codes[first : first + half.n_q]).nonzero().flatten().tolist()
        if differ and _as_near(half, latent, wanted[first:], codes[first:], differ[0], near):
            ties += len(differ)
        else:
            wrong += len(differ)
        first += half.n_q
    return ties, wrong


def _as_near(half: Any, latent: Tensor, wanted: Tensor, codes: Tensor, level: int, near: Near) -> bool:
    """Whether both entries of the first level that differs are as near to what is left of the latent."""
    whole = half.input_proj.weight[:, :, 0].double() @ latent.double()
    books = [layer.embedding.double() for layer in half.vq.layers]
    rest = whole - sum(books[before][wanted[before]] for before in range(level))
    return bool(near(whole, rest, books[level][wanted[level]], books[level][codes[level]]))


def hear_as_reference(patch: pytest.MonkeyPatch, codec: Codec, codes: np.ndarray) -> Callable[[], int]:
    """From here on a codec of one row gives the reference's codes [8, frames], where its own are right as well.

    Returns:
        how many frames it has heard so far; a frame whose codes are wrong fails the test.
    """
    quantizer: Any = codec.mimi.quantizer
    encode, theirs, heard = quantizer.encode, torch.from_numpy(codes).T, 0
    exactly = rounds_as_reference()

    def settled(latent: Tensor) -> Tensor:
        nonlocal heard
        ours, wanted = encode(latent), theirs[heard]
        ties, wrong = count_ties(quantizer, latent[0, :, 0], wanted, ours[0, :, 0], near_by_whole)
        assert wrong == 0 and not (ties and exactly), (
            f"frame {heard}: {ours[0, :, 0].tolist()} instead of {wanted.tolist()}"
        )
        heard += 1
        return wanted[None, :, None].clone() if ties else ours

    patch.setattr(quantizer, "encode", settled)
    return lambda: heard
