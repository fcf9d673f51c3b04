"""What the fast language step promises, under Triton's interpreter; `test_fast_language` runs this in its own process.

A model of a few numbers: the interpreter takes long for each program.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor

from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.readying import PromptKeeper
from personaplex_app.model import rehearsal
from personaplex_app.model.config import CheckpointConfig, LanguageConfig
from personaplex_app.model.fast import attention_kernels, draw_kernels, language
from personaplex_app.model.fast.blocks import BLOCK_POSITIONS
from personaplex_app.model.fast.language import FastLanguageModel
from personaplex_app.model.fast.prompt_states import PromptStates
from personaplex_app.model.fast.stepper import FastStepper
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import random_weights
from personaplex_app.model.prompts import PromptPlan, plan_prompt
from personaplex_app.model.quantization import Quantization
from personaplex_app.model.stepper import Opening, SpeechStepper

CPU = torch.device("cpu")
CONTEXT = 70  # a block and a little more
TINY = LanguageConfig(
    dim=32, layers=2, heads=2, hidden=24, context=CONTEXT, text_card=40, audio_card=30,
    depth_dim=16, depth_layers=1, depth_heads=2, depth_hidden=12,
)  # fmt: skip
CONFIG = CheckpointConfig(language=TINY, silence_codes=tuple(range(8)), sine_codes=tuple(range(8, 16)))
GREEDY = SamplingSettings().greedy()
DRAWN = SamplingSettings(text_top_k=7, audio_top_k=0, repetition_penalty=1.3, audio_temperature=1.5)
MANY = SamplingSettings(text_top_k=0, text_temperature=1.2)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_kernels, "TILE", 16)
    monkeypatch.setattr(attention_kernels, "TARGET_PROGRAMS", 4)


def _plan(tokens: int) -> PromptPlan:
    return plan_prompt(None, [5 + token % 30 for token in range(tokens)], CONFIG)


class Twins:
    """The plain and the fast model over the same weights, advanced together."""

    def __init__(
        self, slots: int, cache: torch.dtype | None = None, seed: int = 0, quantization: Quantization = "none"
    ) -> None:
        torch.manual_seed(3)
        weights = random_weights(TINY, CPU, torch.float32, quantization=quantization)
        self.plain = LanguageModel(weights, slots)
        self.fast = FastLanguageModel(weights, slots, cache, recorded=False)
        self._noise = torch.Generator().manual_seed(seed)

    def prime(self, slot: int, tokens: int, settings: SamplingSettings) -> None:
        for model in (self.plain, self.fast):
            model.prime(slot, _plan(tokens), settings, 11 + slot)

    def advance(self, live: list[bool]) -> None:
        """One step of both; the live rows are equal in all that they give and keep."""
        heard = torch.randint(0, TINY.audio_card, (len(live), 8), generator=self._noise)
        plain, fast = self.plain.advance(heard, live), self.fast.advance(heard, live)
        for row in (row for row, on in enumerate(live) if on):
            for name in ("text", "next_text", "codes", "fed", "healthy"):
                assert torch.equal(getattr(plain, name)[row], getattr(fast, name)[row]), (row, name)
        assert self.plain.state.position_host == self.fast.state.position_host[: len(live)]


def _pasts(twins: Twins, slot: int) -> tuple[Tensor, Tensor]:
    return twins.plain.save(slot).kv, twins.fast.save(slot).kv


def test_one_row_through_the_window_s_end() -> None:
    twins = Twins(1)
    twins.prime(0, CONTEXT - 16, GREEDY)
    assert CONTEXT - 8 < twins.plain.state.position_host[0] < CONTEXT
    for _ in range(CONTEXT - twins.plain.state.position_host[0] + 3):
        twins.advance([True])
    plain, fast = _pasts(twins, 0)
    assert plain.shape == fast.shape == (2, 2, 2, CONTEXT, 16) and torch.allclose(plain, fast, atol=1e-5)


def test_rows_that_draw_rest_and_change_their_minds() -> None:
    twins = Twins(3)
    for slot, settings in enumerate((DRAWN, MANY, GREEDY)):
        twins.prime(slot, 3 + 5 * slot, settings)
    for live in ([True, True, True], [True, False, True], [False, True, False]):
        twins.advance(live)
    for model in (twins.plain, twins.fast):
        model.set_sampling(2, DRAWN)
    twins.advance([True, True, True])


def test_a_saved_row_goes_on_elsewhere_and_blocks_come_back() -> None:
    twins = Twins(2)
    twins.prime(0, CONTEXT - 12, GREEDY)
    saved = twins.fast.save(0), twins.plain.save(0)
    made = twins.fast.pool.made
    twins.fast.reset(0)
    twins.plain.reset(0)
    twins.fast.restore(1, saved[1])
    twins.plain.restore(1, saved[0])
    assert twins.fast.pool.made == made and twins.fast.past.used_bytes(0) == 0
    twins.advance([False, True])


def test_memory_follows_the_used_length() -> None:
    twins = Twins(1)
    twins.prime(0, 2, GREEDY)
    assert twins.fast.past.used_bytes(0) == twins.fast.pool.block_bytes
    twins.prime(0, BLOCK_POSITIONS - 10, GREEDY)
    assert twins.fast.past.used_bytes(0) == 2 * twins.fast.pool.block_bytes
    twins.fast.reset(0)
    twins.fast.pool.trim()
    assert twins.fast.past.used_bytes(0) == 0 and twins.fast.pool.made == 0


def test_eight_bits_stay_near_and_survive_a_save() -> None:
    twins = Twins(1, cache=torch.int8)
    twins.prime(0, 20, GREEDY)
    twins.fast.advance(torch.zeros(1, 8, dtype=torch.int64), [True])
    kept = twins.fast.save(0)
    plain = twins.plain.save(0).kv
    assert (kept.kv[:, :, :, : plain.shape[3]] - plain).abs().max() < 0.01 * plain.abs().max()
    twins.fast.restore(0, kept)
    assert torch.equal(twins.fast.save(0).kv, kept.kv), "rounded once is rounded for good"


@pytest.mark.parametrize("slots", [1, 3])
def test_eight_bit_weights_give_what_their_numbers_stand_for(slots: int) -> None:
    twins = Twins(slots, quantization="int8")
    for slot in range(slots):
        twins.prime(slot, 1, GREEDY)
    twins.advance([True] * slots)


def test_a_known_prompt_is_not_read_again() -> None:
    model = Twins(1).fast
    for _ in model.prime_pieces(0, _plan(9), GREEDY, 1, known_as=("none", "nine")):
        pass
    first = model.save(0)
    model.weights = None  # type: ignore[assignment]  # whoever reads now fails
    assert len(model.prompts) == 1
    with pytest.raises(AttributeError):
        model.prime(0, _plan(9), GREEDY, 1)
    model.weights = Twins(1).fast.weights
    for _ in model.prime_pieces(0, _plan(9), GREEDY, 1, known_as=("none", "nine")):
        raise AssertionError("a known prompt has no pieces")
    again = model.save(0)
    assert torch.equal(first.kv, again.kv) and torch.equal(first.column, again.column)


def test_a_prompt_that_was_made_ready_is_found_and_gives_what_reading_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "PIECE_POSITIONS", 32)
    model, plan, name = Twins(1).fast, _plan(BLOCK_POSITIONS - 9), ("none", "long")
    model.prime(0, plan, GREEDY, 1)
    read = model.save(0)
    model.reset(0)
    model.pool.trim()
    size = 2 * model.pool.block_bytes + 4 * (TINY.dim + TINY.text_card)
    model.prompts = PromptStates(size)
    opening, stepper = Opening(plan, GREEDY, 1, name), cast("FastStepper", SimpleNamespace(language=model))
    assert FastStepper.has_room(stepper, opening) and not model.has_room(_plan(2 * BLOCK_POSITIONS))
    assert len(list(FastStepper.prepare_pieces(stepper, opening))) == 2, "67 positions are three pieces"
    assert FastStepper.keeps(stepper, name) and model.prompts.bytes == size
    assert not FastStepper.has_room(stepper, replace(opening, plan=_plan(1)))
    assert list(FastStepper.prepare_pieces(stepper, replace(opening, known_as=None))) == [], "nobody else will have it"
    assert issubclass(FastStepper, PromptKeeper) and not issubclass(SpeechStepper, PromptKeeper)
    assert model.pool.made == 0 and model.state.position_host == [0], "no row was touched"
    monkeypatch.setattr(model, "_read", lambda plan: pytest.fail("read again"))
    assert list(model.prime_pieces(0, plan, GREEDY, 1, known_as=name)) == []
    ready = model.save(0)
    assert torch.equal(ready.kv, read.kv) and torch.equal(ready.column, read.column)


class _Lines:
    """As much of the fast stepper as a rehearsal needs, without a codec."""

    def __init__(self, model: FastLanguageModel) -> None:
        self.language, self.slots, self.config = model, model.slots, CONFIG
        self.set_sampling, self.release = model.set_sampling, model.reset
        self.stood: list[list[int]] = []
        self.healthy: list[bool] = []

    def step(self, heard: dict[int, object]) -> None:
        self.stood.append(list(self.language.state.position_host[: self.slots]))
        live = [slot in heard for slot in range(self.slots)]
        result = self.language.advance(torch.zeros(self.slots, 8, dtype=torch.int64), live)
        self.healthy.append(bool(result.healthy[: self.slots].all()))


def test_a_rehearsal_stands_at_full_windows_and_leaves_lines_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "UNTIMED_FRAMES", 0)
    model = Twins(2).fast
    lines = _Lines(model)
    assert rehearsal.rehearse(cast("FastStepper", lines), frames=1) > 0
    assert lines.stood == [[CONTEXT, CONTEXT]] and lines.healthy == [True]
    assert model.pool.made == 2 * 2, "all that full windows take"
    assert model.past.used_bytes(0) == model.past.used_bytes(1) == 0 and model.state.position_host == [0, 0]
