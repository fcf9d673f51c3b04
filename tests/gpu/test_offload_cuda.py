"""Layers that stream from locked host memory on a CUDA GPU: the same tokens whatever is slow, and less memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from support.golden import CASES, GREEDY, Case, Reference, case_talk
from support.host_peak import resident_bytes
from support.offload import KEPT, budget, seven_layers
from support.rows import advance, plan, user_frames
from torch import Tensor

from personaplex_app.audio import silence
from personaplex_app.controls import Choices
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.codec import random_codec
from personaplex_app.model.config import CheckpointConfig, LanguageConfig
from personaplex_app.model.frame_time import measured_frame_ms
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import Weights, load_weights, random_weights
from personaplex_app.model.offload import load_offloaded, random_offloaded, streamed_layers
from personaplex_app.model.offload_plan import layer_bytes, offload_sentence
from personaplex_app.model.random_checkpoint import random_tokenizer
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.model.streamed_layers import Staging, StreamedLayers
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.model.transformer import Layer
from personaplex_app.model.voice_file import VoiceShelf

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU is usable here"),
]
CUDA = torch.device("cuda")
Sabotage = Callable[[pytest.MonkeyPatch], None]
SLEEP_CYCLES = 2_000_000  # about a millisecond
GIB = 1 << 30
LIMIT_BYTES = 8 * GIB
ROOM_BYTES = 5 * GIB // 4  # codec, what kernels work in, what the allocator rounds up


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, mini_checkpoint: Checkpoint) -> Checkpoint:
    return seven_layers(tmp_path_factory.mktemp("seven"), mini_checkpoint.config)


def _load(checkpoint: Checkpoint, kept: int) -> Weights:
    weights = load_offloaded(checkpoint, CUDA, torch.float32, budget(checkpoint.config.language, torch.float32, kept))
    assert streamed_layers(weights) == checkpoint.config.language.layers - kept
    return weights


def _said(weights: Weights, frames: int, *, recorded: bool | None = None) -> Tensor:
    """What a model says to random frames after a short prompt; int64 [T, 10] on the host."""
    model = LanguageModel(weights, 1, recorded=recorded)
    model.prime(0, plan(CheckpointConfig(language=weights.config), 7, 8, 9), GREEDY, 0)
    return advance(model, 0, user_frames(5, frames)).cpu()


@pytest.fixture(scope="module")
def expected(checkpoint: Checkpoint) -> Tensor:
    said = _said(load_weights(checkpoint, CUDA, torch.float32), 20, recorded=False)
    assert len(said.unique(dim=0)) > 10, "a talk that repeats itself would prove nothing"
    return said


@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_tokens_with_every_layer_streamed(case: Case, mini_checkpoint: Checkpoint, reference: Reference) -> None:
    ours, theirs = case_talk(case, _load(mini_checkpoint, 0), mini_checkpoint, reference)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kept", [0, 1, KEPT, 4])
def test_tokens_are_those_of_the_resident_engine(kept: int, checkpoint: Checkpoint, expected: Tensor) -> None:
    weights = _load(checkpoint, kept)
    layers = weights.temporal.layers
    assert isinstance(layers, StreamedLayers)
    assert all(memory.is_pinned() and not memory.is_cuda for memory in layers._memories)
    assert sum(layer.norm1.alpha.is_cuda for layer in layers._modules.values()) == kept
    assert torch.equal(_said(weights, 20), expected)


def _late_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every copy begins a millisecond late."""
    fill = Staging.fill

    def late(self: Staging, memory: Tensor) -> None:
        with torch.cuda.stream(self._stream):
            torch.cuda._sleep(SLEEP_CYCLES)
        fill(self, memory)

    monkeypatch.setattr(Staging, "fill", late)


def _late_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer reads its matrices a millisecond late."""
    feed_forward = Layer.feed_forward

    def late(self: Layer, x: Tensor) -> Tensor:
        torch.cuda._sleep(SLEEP_CYCLES)
        return feed_forward(self, x)

    monkeypatch.setattr(Layer, "feed_forward", late)


def _no_wait_for_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Staging, "ready", lambda self: self.room.layer)


def _no_wait_for_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: Staging, memory: Tensor) -> None:
        with torch.cuda.stream(self._stream):
            self.room.memory.copy_(memory, non_blocking=True)
            self._filled.record(self._stream)

    monkeypatch.setattr(Staging, "fill", hasty)


@pytest.mark.parametrize("late", [_late_copies, _late_layers])
@pytest.mark.parametrize("kept", [0, KEPT])
def test_tokens_are_the_same_whatever_is_slow(
    late: Sabotage, kept: int, checkpoint: Checkpoint, expected: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    late(monkeypatch)
    assert torch.equal(_said(_load(checkpoint, kept), 20), expected)


@pytest.mark.parametrize(
    ("late", "no_wait"), [(_late_copies, _no_wait_for_copies), (_late_layers, _no_wait_for_layers)]
)
def test_without_the_waits_they_would_not_be(
    late: Sabotage, no_wait: Sabotage, checkpoint: Checkpoint, expected: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_wait(monkeypatch)
    late(monkeypatch)
    assert not torch.equal(_said(_load(checkpoint, 0), 20), expected)


def test_tokens_of_full_width_in_bf16() -> None:
    config = LanguageConfig(layers=8, context=512, depth_layers=2)
    expected = _said(random_weights(config, CUDA, torch.bfloat16), 20, recorded=False)
    weights = random_offloaded(config, CUDA, torch.bfloat16, budget(config, torch.bfloat16, 1))
    assert streamed_layers(weights) == 7
    assert torch.equal(_said(weights, 20), expected)


@pytest.fixture
def held() -> Iterator[int]:
    """The test may take 8 GiB of the GPU, besides what tests before it still hold; gives how much that is."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    taken = torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction((LIMIT_BYTES + taken) / torch.cuda.get_device_properties(0).total_memory)
    yield taken
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.filterwarnings("ignore")
def test_the_full_size_runs_in_8_gib(held: int, cache_outside_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = CheckpointConfig()
    language = config.language
    ring = language.layers * 2 * language.dim * language.context * 2
    weights_may_take = LIMIT_BYTES - ring - ROOM_BYTES
    gpu_before, host_before = torch.cuda.memory_allocated(), resident_bytes()
    weights = random_offloaded(language, CUDA, torch.bfloat16, weights_may_take)
    streamed = streamed_layers(weights)
    streamed_bytes = streamed * layer_bytes(language, 2)
    loaded_bytes = torch.cuda.max_memory_allocated() - gpu_before
    host_bytes = resident_bytes() - host_before
    needed = budget(language, torch.bfloat16, language.layers - streamed)
    scratch = 2 * 2 * language.hidden * language.dim  # the stand-in's numbers are made on the GPU, a tensor at a time
    assert 0 < streamed < language.layers and needed <= weights_may_take
    assert needed <= loaded_bytes <= needed + scratch + (1 << 27)  # what the allocator rounds up
    assert host_bytes <= streamed_bytes + GIB

    codec = random_codec(config, CUDA, 1)
    tokenizer = Tokenizer(random_tokenizer(cache_outside_home), language.text_card)
    stepper = SpeechStepper(weights, codec, tokenizer, config, VoiceShelf(None, cache_outside_home / "voices", config))
    stepper.prime(0, stepper.open(Choices("You enjoy having a good conversation.", "none", GREEDY, 0)))
    for _ in range(3):
        assert stepper.step({0: silence()})[0].healthy
    middle = measured_frame_ms(stepper)
    allocations = torch.cuda.memory_stats()["num_device_alloc"]
    assert measured_frame_ms(stepper) < 2 * middle
    assert torch.cuda.memory_stats()["num_device_alloc"] == allocations, "a step takes no memory from the driver"
    assert torch.cuda.max_memory_reserved() - held <= LIMIT_BYTES < budget(language, torch.bfloat16, 32)
    with capsys.disabled():
        print(
            f"\n{offload_sentence(middle, streamed, language.layers)} {streamed_bytes / middle / 1e6:.1f} GB/s; "
            f"GPU {(torch.cuda.max_memory_reserved() - held) / GIB:.2f} GiB reserved at most, "
            f"host {host_bytes / GIB:.2f} GiB"
        )
