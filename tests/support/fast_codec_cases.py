"""What the fast codec step promises, under Triton's interpreter; `test_fast_codec` runs this in a process of its own.

The interpreter takes long for each program, so all but one case use few large tiles.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path

import pytest
import soundfile
import torch
from support.fast_codec import Twins, lively_codec
from torch import Tensor

import personaplex_app
from personaplex_app.model.codec import Codec, load_codec
from personaplex_app.model.config import CheckpointConfig, read_config
from personaplex_app.model.fast import mimi_plan as plan
from personaplex_app.model.fast.mimi import MimiStep
from personaplex_app.model.fast.mimi_products import Workshop
from personaplex_app.model.fast.mimi_weights import Product

CHECKPOINTS = Path(personaplex_app.__file__).parent / "checkpoints"
CODEC = "tokenizer-e351c8d8-checkpoint125.safetensors"
CPU = torch.device("cpu")
SLOTS = 3
LARGEST = 1 << 20  # numbers of a tile, by Triton's rule
SOUND = 1e-4
# The interpreter itself turns arrays of one number into numbers.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")


def _large_tiles(positions: int, outputs: int, inputs: int, *, whole: bool, scattered: bool) -> plan.Tile:
    most = [min(256, max(16, plan.power_of_two(size))) for size in (outputs, inputs)]
    if positions <= plan.MOST_FEW_POSITIONS:
        return plan.Tile(plan.power_of_two(positions), most[0], plan.power_of_two(inputs) if whole else most[1])
    return plan.Tile(min(LARGEST // max(most), max(16, plan.power_of_two(positions))), *most)


@pytest.fixture
def large_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "tile_for", _large_tiles)
    monkeypatch.setattr(plan, "ENTRIES_A_SEARCH", 2048)
    monkeypatch.setattr(plan, "CHANNELS_A_LOOK_UP", 1024)
    monkeypatch.setattr(plan, "SAMPLES_A_PROGRAM", 2048)
    monkeypatch.setattr(plan, "CHANNELS_A_MOVE", 1024)


def _small_config() -> CheckpointConfig:
    """The miniature with a ring that is soon full, and with dilated convolutions."""
    mimi = copy.deepcopy(json.loads((CHECKPOINTS / "mini/config.json").read_text())["mimi_config"])
    mimi["transformer"] |= {"context": 5, "num_layers": 1, "num_heads": 2, "layer_scale": 0.5}
    mimi["seanet"] |= {"n_residual_layers": 2}
    return CheckpointConfig(mimi=mimi)


def _packaged(name: str, slots: int) -> Codec:
    return load_codec(CHECKPOINTS / name / CODEC, read_config(CHECKPOINTS / name / "config.json"), CPU, slots)


def _noise(frames: int, rows: int, seed: int = 1) -> Tensor:
    """Frames that swell from silence, float32 [frames, rows, 1920]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(frames, rows, 1920, generator=generator) * torch.linspace(0, 0.3, frames)[:, None, None]


@pytest.mark.usefixtures("large_tiles")
def test_rows_that_join_rest_and_leave_equal_the_reference() -> None:
    twins, dice = Twins(lively_codec(_small_config(), CPU, SLOTS)), random.Random(1)
    heard = []
    for frames in _noise(6, SLOTS):
        if dice.random() < 0.2:
            twins.reset(dice.randrange(SLOTS))
        heard.append(twins.hear(frames, [dice.random() < 0.7 for _ in range(SLOTS)]))
    assert all(len(book.unique()) >= 5 for book in torch.cat(heard).T), "a test of codes needs codes that change"
    assert twins.tally.codes > 80
    assert twins.tally.wrong == 0 and twins.tally.ties <= 0.02 * twins.tally.codes
    assert twins.tally.sound < SOUND


@pytest.mark.usefixtures("large_tiles")
def test_speech_through_the_trained_miniature_equals_the_reference() -> None:
    twins = Twins(_packaged("demo", 1))
    pcm, _ = soundfile.read(Path(__file__).parents[1] / "fixtures/offline_input.wav", dtype="float32")
    for start in range(24_000, 24_000 + 4 * 1920, 1920):
        twins.hear(torch.from_numpy(pcm[None, start : start + 1920]), [True])
    assert twins.tally.codes == 32 and twins.tally.wrong == 0 and twins.tally.ties <= 1
    assert twins.tally.sound < SOUND


def _run(step: MimiStep, frames: Tensor, live: list[bool]) -> tuple[Tensor, Tensor]:
    """Codes [T, B, 8] of frames [T, B, 1920], and the sound of other codes, [T, B, 1920]."""
    mask = torch.tensor(live)
    codes = [step.encode(frame, mask).clone() for frame in frames]
    spoken = torch.arange(8).repeat(len(live), 1)
    return torch.stack(codes), torch.stack([step.decode(spoken + index, mask).clone() for index in range(len(frames))])


@pytest.mark.usefixtures("large_tiles")
def test_a_saved_row_goes_on_elsewhere_and_a_zeroed_one_is_new() -> None:
    step = MimiStep(lively_codec(_small_config(), CPU, 1).mimi, 2)
    heard = _noise(4, 2)
    fresh = [tensor.clone() for tensor in step.rows(1)]
    first = _run(step, heard[:2], [True, False])
    saved = [tensor.clone() for tensor in step.rows(0)]
    second = _run(step, heard[2:], [True, False])
    assert all(torch.equal(one, other) for one, other in zip(step.rows(1), fresh, strict=True)), "a resting row moved"
    assert not any(torch.equal(one, other) for one, other in zip(step.rows(0), fresh, strict=True))

    for zeroed, restored, copy_of in zip(step.rows(0), step.rows(1), saved, strict=True):
        zeroed.zero_()
        restored.copy_(copy_of)
    codes, sound = _run(step, torch.stack([heard[:2, 0], heard[2:, 0]], 1), [True, True])
    assert torch.equal(codes[:, 0], first[0][:, 0]) and torch.equal(codes[:, 1], second[0][:, 0])
    assert (sound[:, 0] - first[1][:, 0]).abs().max() < 1e-6
    assert not torch.equal(second[0], first[0])


@pytest.mark.usefixtures("large_tiles")
def test_fewer_rows_than_slots_leave_the_others_alone() -> None:
    step = MimiStep(lively_codec(_small_config(), CPU, 1).mimi, 2)
    for tensor in step.rows(1):
        tensor.fill_(3)
    _run(step, _noise(2, 1)[1:], [True])
    assert all((tensor == 3).all() for tensor in step.rows(1))
    assert all(tensor.any() for tensor in step.rows(0))


def test_another_step_shares_weights_and_no_state() -> None:
    step = MimiStep(lively_codec(_small_config(), CPU, 1).mimi, 1)
    twin = step.another(2)
    assert twin.slots == 2
    for tensor in twin.rows(0):
        tensor.fill_(1)
    assert not any(tensor.any() for tensor in step.rows(0))
    assert [tensor.shape for tensor in twin.rows(1)] == [tensor.shape for tensor in step.rows(0)]


TILES = {
    "few positions": (1, plan.Tile(2, 4, 32), {}),
    "few positions, odd sizes": (2, plan.Tile(4, 8, 64), {"outputs": 13, "width": 11}),
    "few positions, normalized": (2, plan.Tile(4, 16, 32), {"norm": True, "gelu": True, "taps": 1}),
    "many positions": (3, plan.Tile(16, 16, 16), {}),
    "many positions, odd sizes": (5, plan.Tile(16, 16, 32), {"outputs": 13, "width": 11}),
    "many positions, normalized": (5, plan.Tile(16, 16, 16), {"norm": True, "gelu": True, "taps": 1, "width": 40}),
    "shared by programs": (3, plan.Tile(16, 16, 16, splits=4), {}),
    "shared by programs, one without work": (3, plan.Tile(16, 16, 16, splits=4), {"width": 16, "taps": 3}),
    "with gaps": (3, plan.Tile(16, 16, 16), {"dilation": 3}),
    "with strides": (3, plan.Tile(16, 16, 16), {"stride": 2, "taps": 4}),
    "fresh rows": (2, plan.Tile(4, 16, 32), {"stride": 2, "taps": 4, "replicate": True}),
    "fresh rows, many positions": (3, plan.Tile(16, 16, 16), {"stride": 2, "taps": 4, "replicate": True}),
}


@pytest.mark.parametrize("name", TILES)
def test_products_equal_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    b, tile, how = TILES[name]
    monkeypatch.setattr(plan, "tile_for", lambda *_, **__: tile)
    product, x, offsets = _product(b, **how)
    columns = (x.shape[1] - product.past) // product.stride
    residual = torch.randn(b, columns, product.outputs)
    out, active = torch.full((2, b, columns, product.outputs), float("nan"))
    workshop = Workshop(CPU)
    for _ in range(2):  # the second finds the scratch memory as the first has left it
        workshop.multiply(product, x, out=out, active=active, residual=residual, offsets=offsets)
    wanted = _by_torch(product, x, offsets) + residual
    torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(active, torch.nn.functional.elu(wanted), rtol=1e-5, atol=1e-5)


def _product(
    b: int,
    outputs: int = 24,
    width: int = 20,
    taps: int = 3,
    replicate: bool = False,
    **how: int,
) -> tuple[Product, Tensor, Tensor | None]:
    """A random product and its input; of the replicated kind every second row is fresh."""
    torch.manual_seed(1)
    past = (taps - 1) * how.get("dilation", 1) + 1 - how.get("stride", 1)
    weight = torch.randn(outputs, taps * width) / (taps * width) ** 0.5
    product = Product(weight, torch.randn(outputs), width, past=past, **how)
    return product, torch.randn(b, past + 2, width), torch.arange(b) % 2 if replicate else None


def _by_torch(product: Product, x: Tensor, offsets: Tensor | None) -> Tensor:
    if offsets is not None:
        fresh = (offsets == 0)[:, None, None] & (torch.arange(x.shape[1]) < product.past)[None, :, None]
        x = torch.where(fresh, x[:, product.past : product.past + 1], x)
    if product.norm:
        x = torch.nn.functional.layer_norm(x, x.shape[2:])
    weight = product.weight.unflatten(1, (-1, product.width)).transpose(1, 2)
    y = torch.nn.functional.conv1d(x.transpose(1, 2), weight, product.bias, product.stride, 0, product.dilation)
    return torch.nn.functional.gelu(y.transpose(1, 2)) if product.gelu else y.transpose(1, 2)
