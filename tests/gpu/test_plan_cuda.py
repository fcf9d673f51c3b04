"""The plan on a CUDA GPU: the card as torch tells it, a share of its memory, and a rehearsal that leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from personaplex_app.assemble import build_stepper
from personaplex_app.cards import CONTEXT_BYTES, GIB, figures_for
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.model import card as cards_of_torch
from personaplex_app.model.fast.stepper import FastStepper
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.out_of_memory import is_out_of_memory
from personaplex_app.settings import EngineChoice

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU is usable here"),
]
CUDA = torch.device("cuda")
FRAMES = 20
SLOTS = 3


@pytest.fixture(autouse=True)
def whole_memory() -> Iterator[None]:
    """A share that a test takes is given back."""
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_the_card_is_read_as_torch_tells_it() -> None:
    card = cards_of_torch.read_card(CUDA)
    assert 0 < card.free_bytes <= card.total_bytes and card.capability == torch.cuda.get_device_capability()
    assert cards_of_torch.read_card(CUDA, 4 * GIB).free_bytes <= 4 * GIB - CONTEXT_BYTES


def test_a_copy_tells_a_known_card_s_bandwidth_to_a_third() -> None:
    figures = figures_for(torch.cuda.get_device_name())
    measured = cards_of_torch._copy_rate(CUDA)
    if figures is None:
        pytest.skip(f"not in the table; {measured / 1e9:.0f} GB/s by copying")
    assert 0.67 * figures.bandwidth < measured < 1.1 * figures.bandwidth


def test_a_process_that_is_held_runs_out_in_words_that_are_understood() -> None:
    cards_of_torch.hold_memory(CUDA, 2 * GIB)
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2 * GIB, dtype=torch.uint8, device=CUDA)
    assert is_out_of_memory(refused.value)


def _said(stepper: SpeechStepper) -> list[list[int]]:
    noise = np.random.default_rng(3)
    stepper.prime(1, stepper.open(Choices("Be kind.", "none", SamplingSettings(), 9)))
    heard = [(0.1 * noise.standard_normal(1920)).astype(np.float32) for _ in range(FRAMES)]
    return [stepper.step({1: frame})[1].tokens.tolist() for frame in heard]


def test_a_rehearsed_stepper_says_what_one_says_that_was_not(tmp_path: Path, mini_directory: Path) -> None:
    choice = EngineChoice(str(mini_directory), tmp_path, device="cuda", slots=SLOTS)
    lines: list[str] = []
    talks = build_stepper(choice, lines.append)
    assert isinstance(talks, FastStepper) and talks.plan is not None and not talks.remark
    assert f"{SLOTS} lines" in talks.summary and "a frame takes" in talks.summary and lines[0].startswith("The plan")
    blocks = SLOTS * -(-talks.context // 64)
    assert talks.language.pool.made == blocks  # type: ignore[attr-defined]
    other = build_stepper(EngineChoice(str(mini_directory), tmp_path, device="cuda", slots=SLOTS, purpose="render"))
    assert other.summary == "" and _said(talks) == _said(other)
    assert talks.language.pool.made == blocks, "no talk takes more"  # type: ignore[attr-defined]
