"""What a caller may set, and the sentence for what nobody may."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.controls import MAX_SEED, SamplingSettings, parse_seed
from personaplex_app.errors import InvalidInput, NoCapacity, PersonaplexError, ServerFault, SessionEnded

TEMPERATURES = ("audio_temperature", "text_temperature")
LIMITS = ("audio_top_k", "text_top_k")


def test_defaults_are_the_reference_s() -> None:
    settings = SamplingSettings()
    assert (settings.audio_temperature, settings.audio_top_k) == (0.8, 250)
    assert (settings.text_temperature, settings.text_top_k) == (0.7, 25)
    assert (settings.repetition_penalty, settings.penalty_window_tokens) == (1.0, 64)


@pytest.mark.parametrize("name", TEMPERATURES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, 99, 2.001, "0.7", None, True])
def test_temperatures_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=r"temperature must be .*from 0 to 2"):
        SamplingSettings(**{name: value})


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [-1, -5, 2.5, math.nan, "25", None, False, 10**9 + 1])
def test_top_k_out_of_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match="top-k must be"):
        SamplingSettings(**{name: value})


@pytest.mark.parametrize("value", [0.99, 2.01, math.nan, math.inf, "1", True])
def test_penalties_out_of_range_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="Repetition penalty must be"):
        SamplingSettings(repetition_penalty=value)


@pytest.mark.parametrize("value", [0, 65, 1.5, "64"])
def test_penalty_windows_out_of_range_are_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="Penalty window tokens must be"):
        SamplingSettings(penalty_window_tokens=value)


def test_edges_are_allowed() -> None:
    low = SamplingSettings(0, 0.0, 0, 0, 1, 1)
    high = SamplingSettings(2, 2.0, 10**9, 10**9, 2, 64)
    assert low.greedy() == low and high.audio_top_k == 10**9


def test_greedy_keeps_top_k_and_drops_chance_and_penalty() -> None:
    greedy = SamplingSettings(audio_top_k=9, repetition_penalty=1.3).greedy()
    assert greedy == SamplingSettings(0.0, 0.0, 9, 25, 1.0)


def test_changed_ignores_none_and_checks_the_rest() -> None:
    assert SamplingSettings().changed(audio_top_k=None, text_top_k=3) == SamplingSettings(text_top_k=3)
    with pytest.raises(InvalidInput, match="Text top-k must be from 0"):
        SamplingSettings().changed(text_top_k=-1)


def test_a_mapping_names_what_it_does_not_know() -> None:
    base = SamplingSettings(audio_top_k=5)
    assert SamplingSettings.from_mapping({"text_top_k": 3}, base) == SamplingSettings(audio_top_k=5, text_top_k=3)
    with pytest.raises(InvalidInput, match="Unknown sampling setting 'top_p'; known are audio_temperature, "):
        SamplingSettings.from_mapping({"top_p": 0.9})


@pytest.mark.parametrize("value", [None, "", "  ", -1, "-1"])
def test_no_seed_draws_fresh_ones(value: object) -> None:
    seeds = {parse_seed(value) for _ in range(8)}
    assert len(seeds) > 1 and all(0 <= seed <= MAX_SEED for seed in seeds)


@pytest.mark.parametrize(("value", "seed"), [("7", 7), (" 42 ", 42), (0, 0), (3.0, 3), (str(MAX_SEED), MAX_SEED)])
def test_seeds_as_people_type_them(value: object, seed: int) -> None:
    assert parse_seed(value) == seed


@pytest.mark.parametrize("value", ["abc", "1.5", 1.5, math.nan, math.inf, "-2", -2, MAX_SEED + 1, "1e9", "9" * 5000])
def test_what_is_no_seed_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="The seed must be"):
        parse_seed(value)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none()))
def test_any_seed_gives_a_number_or_a_sentence(value: object) -> None:
    try:
        assert 0 <= parse_seed(value) <= MAX_SEED
    except InvalidInput as error:
        assert error.sentence.startswith("The seed must be") and len(error.sentence) < 200


def test_each_error_has_a_code_and_a_sentence() -> None:
    kinds = (InvalidInput, NoCapacity, SessionEnded, ServerFault)
    errors = [kind("So it is.") for kind in kinds]
    assert len({error.code for error in errors}) == len(kinds)
    assert all(isinstance(error, PersonaplexError) and str(error) == error.sentence for error in errors)
    assert InvalidInput("No.", code="unknown_voice").code == "unknown_voice" and InvalidInput.code == "invalid_input"
