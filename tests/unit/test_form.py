"""The page's values become choices or one sentence; nothing a client can send becomes anything else."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personaplex_app.controls import MAX_SEED, Choices, SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.web.form import CHOICES, describe_sampling, read_choices

GOOD = dict(zip(CHOICES, ("Be kind.", "NATF0", 0.8, 0.7, 250, 25, 1.0, "42", False), strict=True))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=40), st.binary(max_size=8)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


BASE = SamplingSettings(0.5, 0.4, 30, 20, 1.2)


def _read(**changed: Any) -> Choices:
    return read_choices({**GOOD, **changed}, BASE)


def test_every_value_is_read() -> None:
    assert _read() == Choices("Be kind.", "NATF0", SamplingSettings(), 42)


def test_what_is_not_named_holds_as_it_stands() -> None:
    choices = read_choices({}, BASE)
    assert (choices.prompt, choices.voice, choices.sampling) == ("", "none", BASE) and choices.seed >= 0
    one = read_choices({"audio_top_k": 7}, BASE).sampling
    assert one == replace(BASE, audio_top_k=7)


def test_the_loop_guard_may_act_unless_it_is_forbidden() -> None:
    assert read_choices({}, BASE).loop_guard and _read(loop_guard=True).loop_guard and not _read().loop_guard


@pytest.mark.parametrize("name", ["temperature", "Prompt", "penalty_window_tokens", "", "\ud800", "x" * 1_000])
def test_a_choice_that_is_none_is_named(name: str) -> None:
    with pytest.raises(InvalidInput, match="Unknown choice") as refused:
        _read(**{name: 1})
    assert "repetition_penalty" in refused.value.sentence and len(refused.value.sentence) < 250
    refused.value.sentence.encode()


@pytest.mark.parametrize(
    ("prompt", "read"), [(None, ""), ("", ""), ("  spaced  ", "  spaced  "), ("日本 😀", "日本 😀")]
)
def test_prompts_as_boxes_give_them(prompt: Any, read: str) -> None:
    assert _read(prompt=prompt).prompt == read


@pytest.mark.parametrize("voice", [None, ""])
def test_no_voice_is_none(voice: Any) -> None:
    assert _read(voice=voice).voice == "none"


@pytest.mark.parametrize(
    ("seed", "least", "most"), [("", 0, MAX_SEED), (None, 0, MAX_SEED), ("-1", 0, MAX_SEED), (7.0, 7, 7)]
)
def test_seeds_as_boxes_give_them(seed: Any, least: int, most: int) -> None:
    assert least <= _read(seed=seed).seed <= most


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("prompt", 7, "The prompt must be a text"),
        ("prompt", ["a"], "The prompt must be a text"),
        ("voice", "../../etc/passwd", "is no voice name"),
        ("voice", "/etc/passwd", "is no voice name"),
        ("voice", "NATF0\x00", "is no voice name"),
        ("voice", "..", "is no voice name"),
        ("voice", 7, "is no voice name"),
        ("voice", ["NATF0"], "is no voice name"),
        ("audio_temperature", math.nan, "Audio temperature must be a number from 0 to 2"),
        ("audio_temperature", math.inf, "Audio temperature must be a number from 0 to 2"),
        ("audio_temperature", -1, "Audio temperature must be from 0 to 2"),
        ("text_temperature", 99, "Text temperature must be from 0 to 2"),
        ("text_temperature", "0.7", "The text temperature must be a number"),
        ("text_temperature", None, "The text temperature must be a number"),
        ("text_temperature", True, "The text temperature must be a number"),
        ("audio_top_k", -5, "Audio top-k must be from 0"),
        ("audio_top_k", 2.5, "The audio top-k must be a whole number"),
        ("audio_top_k", math.nan, "The audio top-k must be a whole number"),
        ("text_top_k", 2e9, "Text top-k must be from 0"),
        ("text_top_k", "25", "The text top-k must be a whole number"),
        ("repetition_penalty", 0.5, "Repetition penalty must be from 1 to 2"),
        ("repetition_penalty", {}, "The repetition penalty must be a number"),
        ("loop_guard", None, "The loop guard must be true or false"),
        ("loop_guard", 1, "The loop guard must be true or false"),
        ("loop_guard", "false", "The loop guard must be true or false"),
        ("seed", "abc", "The seed must be a whole number"),
        ("seed", "-2", "The seed must be from 0"),
        ("seed", "9" * 5000, "The seed must be"),
    ],
)
def test_what_cannot_be_used_is_said(field: str, value: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as refused:
        _read(**{field: value})
    assert len(refused.value.sentence) < 200


@pytest.mark.parametrize(("value", "whole"), [(0, 0), (10**9, 10**9), (25.0, 25)])
def test_whole_numbers_as_sliders_give_them(value: Any, whole: int) -> None:
    assert _read(audio_top_k=value).sampling.audio_top_k == whole


@given(st.dictionaries(st.sampled_from(CHOICES) | st.text(max_size=12), VALUES, max_size=10))
@example(dict.fromkeys(CHOICES))
@example(dict.fromkeys(CHOICES, 10**400))
@example({"audio_temperature": 10**400})
def test_any_values_give_choices_or_a_sentence(values: dict[str, Any]) -> None:
    try:
        choices = read_choices(values, BASE)
    except InvalidInput as error:
        assert error.sentence and len(error.sentence) < 300
    else:
        assert isinstance(choices, Choices) and 0 <= choices.seed <= MAX_SEED


@given(st.sampled_from(CHOICES), VALUES)
def test_any_one_value_gives_choices_or_a_sentence(field: str, value: Any) -> None:
    try:
        assert isinstance(_read(**{field: value}), Choices)
    except InvalidInput as error:
        assert error.sentence and len(error.sentence) < 300


def test_every_value_that_holds_is_described() -> None:
    words = describe_sampling(SamplingSettings(0.5, 0.25, 0, 7, 1.5))
    assert words == (
        "audio temperature 0.5, text temperature 0.25, audio top-k off, text top-k 7, repetition penalty 1.5"
    )
