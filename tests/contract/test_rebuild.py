"""A model that has learned a short past only is rebuilt beside the talk, and equals a fresh prefill."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.golden import CASES, GREEDY, Reference, case_plan
from support.speech import conversation

from personaplex_app.assemble import build_stepper
from personaplex_app.controls import Choices
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import Weights
from personaplex_app.model.rebuild import KEPT_FRAMES
from personaplex_app.offline import render
from personaplex_app.settings import EngineChoice
from personaplex_app.window import Window

TRAINED = 300
PROMPT = "You work for Blue River which is a bike shop and your name is Kate. Information: A bike costs $45."
QUESTIONS = ["How much is the bike?", "What is your name?"] * 6


def _model(weights: Weights, checkpoint: Checkpoint, reference: Reference) -> LanguageModel:
    model = LanguageModel(weights, 1, trained_positions=TRAINED)
    model.prime(0, case_plan(CASES[0], checkpoint, reference), GREEDY, 0)
    return model


def _codes(frame: int) -> torch.Tensor:
    return torch.randint(0, 2048, (1, 8), generator=torch.Generator().manual_seed(frame))


def test_the_past_stays_within_what_was_trained_and_equals_a_fresh_one(
    mini_weights: Weights, mini_checkpoint: Checkpoint, reference: Reference
) -> None:
    model, fed, positions = _model(mini_weights, mini_checkpoint, reference), [], []
    plan = case_plan(CASES[0], mini_checkpoint, reference)
    swapped_at = 0
    for frame in range(400):
        before = model.state.position_host[0]
        fed.append(model.advance(_codes(frame), [True]).fed[0])
        positions.append(model.state.position_host[0])
        if positions[-1] < before and not swapped_at:
            swapped_at = frame
            _assert_fresh(model, mini_weights, plan, fed)
    assert swapped_at > 0
    assert max(positions) <= TRAINED
    assert sum(np.diff(positions) < 0) >= 2


def _assert_fresh(model: LanguageModel, weights: Weights, plan, fed: list[torch.Tensor]) -> None:
    """The row holds what a prefill of prompt and last columns gives, and nothing behind it."""
    position = model.state.position_host[0]
    columns = torch.stack(fed[-(position - plan.frames) :])
    assert len(columns) >= KEPT_FRAMES
    with torch.inference_mode():
        x = torch.cat([plan.embeddings, weights.temporal.embed(plan.grid[:, len(plan.embeddings) :].T)])
        x = torch.cat([x, weights.temporal.embed(columns)])
        row = torch.zeros_like(model.state.kv[:, 0])
        weights.temporal.prefill(x, row)
    torch.testing.assert_close(model.state.kv[:, 0], row, rtol=0, atol=1e-4)


def test_a_restored_row_goes_on_as_the_original_through_a_rebuild(
    mini_weights: Weights, mini_checkpoint: Checkpoint, reference: Reference
) -> None:
    model = _model(mini_weights, mini_checkpoint, reference)
    for frame in range(120):  # in the middle of the first rebuild
        model.advance(_codes(frame), [True])
    saved = model.save(0).moved(torch.clone)
    assert saved.rebuild is not None and saved.rebuild.wanted is not None
    past = sum(tensor.nbytes for tensor in saved.rebuild.tensors)
    assert len(saved.rebuild.recent) == KEPT_FRAMES and saved.bytes > saved.kv.nbytes + past > saved.kv.nbytes
    first = [model.advance(_codes(frame), [True]).codes.clone() for frame in range(120, 260)]
    model.reset(0)
    assert not model.state.kv.any()
    model.restore(0, saved)
    again = [model.advance(_codes(frame), [True]).codes.clone() for frame in range(120, 260)]
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


@pytest.fixture(scope="module")
def long_talk(cache_outside_home) -> tuple[Window, list[str]]:
    """How far back `demo` remembers, and what it says after each question over twice its trained length."""
    stepper = build_stepper(EngineChoice("demo", cache_outside_home, device="cpu"))
    pcm, windows = conversation(QUESTIONS, gap_seconds=4.6)
    rendered = render(stepper, stepper.open(Choices(PROMPT, "NATF0", stepper.config.sampling, 0)), pcm)
    answers = [
        " ".join(w.text for w in rendered.transcript.words if window.start <= w.start_seconds * 24_000 < window.stop)
        for window in windows
    ]
    return stepper.window, answers


def test_the_miniature_stays_awake_past_its_trained_length(long_talk) -> None:
    window, answers = long_talk
    assert window == Window(512, KEPT_FRAMES)
    expected = ["forty five", "Kate"] * (len(QUESTIONS) // 2)
    right = [part in answer for part, answer in zip(expected, answers, strict=True)]
    assert sum(right) >= 9 and sum(right[-4:]) >= 2, answers
