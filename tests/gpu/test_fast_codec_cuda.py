"""The fast codec step on a GPU equals moshi's modules at full size, launched and recorded. Never runs in CI."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from support.fast_codec import Twins, lively_codec
from torch import Tensor

from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.fast.mimi import MimiStep

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]
CUDA = torch.device("cuda")
WRAPPED_FRAMES = 132  # the codec's own ring holds 125


def _noise(frames: int, rows: int) -> Iterator[Tensor]:
    """Frames that swell and fade, float32 [rows, 1920]."""
    generator = torch.Generator(device=CUDA).manual_seed(1)
    for frame in range(frames):
        loudness = 0.3 * abs(1 - (frame % 20) / 10)
        yield torch.randn(rows, 1920, generator=generator, device=CUDA) * loudness


@pytest.mark.parametrize(("rows", "frames"), [(1, WRAPPED_FRAMES), (2, 12), (3, WRAPPED_FRAMES), (9, 12), (64, 12)])
def test_full_size_equals_the_reference(rows: int, frames: int) -> None:
    twins, dice = Twins(lively_codec(CheckpointConfig(), CUDA, rows)), random.Random(rows)
    for heard in _noise(frames, rows):
        if rows > 1 and dice.random() < 0.1:
            twins.reset(dice.randrange(rows))
        twins.hear(heard, [rows == 1 or dice.random() < 0.8 for _ in range(rows)])
    tally = twins.tally
    assert tally.wrong == 0, tally
    assert tally.ties <= 0.02 * tally.codes, tally
    assert tally.sound < 1e-4, tally


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_recorded_equals_launched(rows: int) -> None:
    launched = MimiStep(lively_codec(CheckpointConfig(), CUDA, 1).mimi, rows)
    recorded = launched.another(rows)
    frames = torch.zeros(rows, 1920, device=CUDA)
    live = torch.zeros(rows, dtype=torch.bool, device=CUDA)
    recorded.decode(recorded.encode(frames, live), live)  # compiles; with no row live it changes nothing
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        codes = recorded.encode(frames, live)
        sound = recorded.decode(codes, live)
    live.fill_(True)
    for heard in _noise(6, rows):
        frames.copy_(heard)
        graph.replay()
        wanted = launched.encode(heard, live)
        assert torch.equal(codes, wanted)
        assert torch.equal(sound, launched.decode(wanted, live))
    assert all(torch.equal(one, other) for one, other in zip(recorded.rows(0), launched.rows(0), strict=True))
