"""Drawing tokens: what temperature, top-k, penalty and seed do, and that rows cannot feel each other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from personaplex_app.controls import PENALTY_WINDOW_TOKENS, SamplingSettings
from personaplex_app.model.sampling import (
    SAMPLED_STREAMS,
    TURN_END_FRAMES,
    SamplingRows,
    draw,
    penalize,
    uniform_noise,
    widest_candidates,
)

VOCABULARY = 12
LOGITS = torch.linspace(-2, 2, VOCABULARY)[torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(0))]
WINDOW = PENALTY_WINDOW_TOKENS


def _noise(count: int, seed: int = 1) -> Tensor:
    return uniform_noise(torch.full((count,), seed), torch.arange(count))[:, 0]


def _draws(temperature: float, top_k: int, count: int = 20_000, widest: int = VOCABULARY) -> Tensor:
    rows = LOGITS.expand(count, -1)
    return draw(rows, torch.full((count,), temperature), torch.full((count,), top_k), _noise(count), widest)


def test_temperature_zero_is_greedy() -> None:
    assert (_draws(0.0, 5, 100) == LOGITS.argmax()).all()
    assert (_draws(0.0, 0, 100, widest=1) == LOGITS.argmax()).all()


def test_draws_follow_softmax() -> None:
    for temperature in (0.5, 1.0, 2.0):
        drawn = _draws(temperature, 0)
        expected = torch.softmax(LOGITS / temperature, 0) * len(drawn)
        found = torch.bincount(drawn, minlength=VOCABULARY)
        chi_square = ((found - expected) ** 2 / expected).sum()
        assert chi_square < 31.3, "p = 0.001 at 11 degrees of freedom"


def test_top_k_keeps_the_best_k_and_their_proportions() -> None:
    drawn, best = _draws(1.0, 3), LOGITS.topk(3).indices
    assert set(drawn.tolist()) == set(best.tolist())
    expected = torch.softmax(LOGITS[best], 0) * len(drawn)
    found = torch.bincount(drawn, minlength=VOCABULARY)[best]
    assert ((found - expected) ** 2 / expected).sum() < 13.8, "p = 0.001 at 2 degrees of freedom"


def test_top_k_is_each_row_s_own() -> None:
    limits = torch.tensor([1, 2, 4, 0]).repeat(2000)
    drawn = draw(LOGITS.expand(8000, -1), torch.full((8000,), 2.0), limits, _noise(8000), VOCABULARY)
    kinds = [len(drawn[limits == limit].unique()) for limit in (1, 2, 4, 0)]
    assert kinds == [1, 2, 4, VOCABULARY]


def test_top_k_zero_or_beyond_the_vocabulary_is_no_limit() -> None:
    free = _draws(1.5, 0)
    assert torch.equal(free, _draws(1.5, VOCABULARY)) and torch.equal(free, _draws(1.5, 10**9))
    assert len(free.unique()) == VOCABULARY


@given(
    top_k=st.integers(1, VOCABULARY),
    temperature=st.floats(0.0, 2.0, width=32),
    seed=st.integers(0, 2**63 - 1),
    more=st.integers(0, VOCABULARY),
)
@settings(max_examples=200, deadline=None)
def test_a_neighbour_s_wider_limit_changes_nothing(top_k: int, temperature: float, seed: int, more: int) -> None:
    generator = torch.Generator().manual_seed(seed % 2**31)
    rows = torch.randn(4, VOCABULARY, generator=generator)
    noise = uniform_noise(torch.full((4,), seed), torch.arange(4))[:, 0]
    arguments = (rows, torch.full((4,), temperature), torch.full((4,), top_k), noise)
    wider = min(top_k + more, VOCABULARY)
    assert torch.equal(draw(*arguments, max(2, top_k)), draw(*arguments, max(2, wider)))


def test_draws_stay_inside_the_candidates_at_the_edges_of_noise() -> None:
    for noise in (0.0, 1 - 2**-24):
        drawn = draw(LOGITS[None], torch.ones(1), torch.tensor([4]), torch.tensor([noise]), 4)
        assert drawn.item() in LOGITS.topk(4).indices


def test_widest_candidates() -> None:
    assert widest_candidates([(0.0, 250), (0.0, 0)], 2048) == 1
    assert widest_candidates([(0.7, 25), (0.0, 0)], 2048) == 25
    assert widest_candidates([(0.7, 25), (0.1, 0)], 2048) == 2048
    assert widest_candidates([(0.7, 10**9)], 2048) == 2048
    assert widest_candidates([], 2048) == 1


def test_noise_is_uniform() -> None:
    noise = uniform_noise(torch.arange(2000) * 977, torch.arange(2000))
    assert noise.shape == (2000, SAMPLED_STREAMS) and noise.dtype == torch.float32
    assert noise.min() >= 0 and noise.max() < 1
    found = torch.histc(noise, 20, 0, 1)
    expected = noise.numel() / 20
    assert ((found - expected) ** 2 / expected).sum() < 43.8, "p = 0.001 at 19 degrees of freedom"
    correlations = torch.corrcoef(noise.T) - torch.eye(SAMPLED_STREAMS)
    assert correlations.abs().max() < 0.1


def test_noise_changes_with_seed_step_and_stream() -> None:
    seeds = torch.tensor([1, 2, 1, 1 + 2**32, 2**62])
    steps = torch.tensor([1, 1, 2, 1, 1])
    noise = uniform_noise(seeds, steps)
    assert len(noise.unique()) == noise.numel()


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 10**6)), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_noise_depends_on_nothing_else(rows: list[tuple[int, int]]) -> None:
    seeds, steps = (torch.tensor(values) for values in zip(*rows, strict=True))
    together = uniform_noise(seeds, steps)
    torch.manual_seed(0)
    alone = [uniform_noise(seeds[i : i + 1], steps[i : i + 1])[0] for i in reversed(range(len(rows)))]
    assert torch.equal(together, torch.stack(alone[::-1]))


def _recent(*tokens: int) -> Tensor:
    """The window after these tokens, newest last."""
    return torch.tensor([[-1] * (WINDOW - len(tokens)) + list(tokens)])


def test_penalty_divides_positive_and_multiplies_negative_once() -> None:
    logits = torch.tensor([[4.0, -4.0, 2.0, 0.0]])
    out = penalize(logits, _recent(0, 1, 0, 0, 3), torch.tensor([WINDOW]), torch.tensor([2.0]))
    assert out.tolist() == [[2.0, -8.0, 2.0, 0.0]]


def test_penalty_looks_back_no_further_than_its_window() -> None:
    logits, recent = torch.ones(3, 8), _recent(5, 6, 7).expand(3, -1)
    out = penalize(logits, recent, torch.tensor([1, 2, WINDOW]), torch.full((3,), 2.0))
    assert [(row < 1).nonzero().flatten().tolist() for row in out] == [[7], [6, 7], [5, 6, 7]]


def test_penalty_one_and_an_empty_window_change_nothing() -> None:
    logits, window = torch.randn(1, 8), torch.tensor([WINDOW])
    for recent, rate in ((_recent(1, 2), 1.0), (_recent(), 2.0)):
        assert torch.equal(penalize(logits, recent, window, torch.tensor([rate])), logits)


def _rows(slots: int = 1) -> SamplingRows:
    rows = SamplingRows.empty(slots, torch.device("cpu"))
    for slot in range(slots):
        rows.apply(slot, SamplingSettings(repetition_penalty=1.5, penalty_window_tokens=9))
        rows.begin(slot, 1)
    return rows


def _say(rows: SamplingRows, *tokens: int) -> None:
    for token in tokens:
        rows.note_text(torch.tensor([token]), torch.tensor([True]))


def test_words_enter_the_window_and_padding_does_not() -> None:
    rows = _rows()
    _say(rows, 9, 3, 0, 8, 3, 9)
    assert rows.recent[0, -3:].tolist() == [9, 8, 9] and (rows.recent[0, :-3] == -1).all()
    assert rows.steps.item() == 6


def test_the_oldest_word_leaves_the_window() -> None:
    rows = _rows()
    _say(rows, *range(10, 10 + WINDOW + 5))
    assert rows.recent[0].tolist() == list(range(15, 15 + WINDOW))


def test_a_turn_s_end_forgets_the_words() -> None:
    rows = _rows()
    _say(rows, 9, *[3] * (TURN_END_FRAMES - 1))
    assert rows.recent[0, -1] == 9
    _say(rows, 3)
    assert (rows.recent == -1).all()
    _say(rows, 7)
    assert rows.recent[0, -1] == 7 and rows.padding_run.item() == 0


def test_resting_rows_note_nothing() -> None:
    rows = _rows(2)
    rows.note_text(torch.tensor([9, 9]), torch.tensor([True, False]))
    assert rows.steps.tolist() == [1, 0] and rows.recent[:, -1].tolist() == [9, -1]
    assert rows.padding_run.tolist() == [0, 0]


def test_applied_settings_are_what_a_step_reads() -> None:
    rows = _rows(2)
    rows.apply(1, SamplingSettings(0.25, 0.5, 7, 0, 1.25, 3))
    read = (rows.audio_temperature, rows.text_temperature, rows.audio_top_k, rows.text_top_k, rows.penalty, rows.window)
    assert [value[1].item() for value in read] == [0.25, 0.5, 7, 0, 1.25, 3]
    assert [value[0].item() for value in read] == [0.800000011920929, 0.699999988079071, 250, 25, 1.5, 9]


@pytest.mark.parametrize("vocabulary", [2048, 32000])
def test_ties_are_drawn_alike_however_many_candidates_are_looked_at(vocabulary: int) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(64, vocabulary, generator=generator).bfloat16()
    noise = torch.rand(64, generator=generator)
    temperature, top_k = torch.full((64,), 0.8), torch.full((64,), 25)
    drawn = [draw(logits, temperature, top_k, noise, widest) for widest in (25, 32, 250, 256, vocabulary)]
    assert all(torch.equal(drawn[0], other) for other in drawn[1:])
