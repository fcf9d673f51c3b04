"""The page's values become choices or one sentence; nothing a client can send becomes anything else."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personaplex_app.controls import MAX_SEED, Choices, SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.web.form import FIELDS, Form, describe_sampling

GOOD = ("Be kind.", "NATF0", 0.8, 0.7, 250, 25, 1.0, "42")
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=40), st.binary(max_size=8)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _form(**changed: Any) -> Form:
    return Form({**dict(zip(FIELDS, GOOD, strict=True)), **changed})


@pytest.mark.parametrize("before", [[], ["__webrtc_value__"], ["__webrtc_value__", "id-of-the-connection"]])
def test_fields_are_taken_from_the_end_whatever_stands_before(before: list[str]) -> None:
    choices = Form.from_args([*before, *GOOD]).choices()
    assert choices == Choices("Be kind.", "NATF0", SamplingSettings(), 42)


@pytest.mark.parametrize("args", [[], ["__webrtc_value__"], GOOD[:-1]])
def test_too_few_values_are_told(args: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="The page sent no settings"):
        Form.from_args(args)


@pytest.mark.parametrize(
    ("prompt", "read"), [(None, ""), ("", ""), ("  spaced  ", "  spaced  "), ("日本 😀", "日本 😀")]
)
def test_prompts_as_boxes_give_them(prompt: Any, read: str) -> None:
    assert _form(prompt=prompt).choices().prompt == read


@pytest.mark.parametrize("voice", [None, ""])
def test_no_voice_is_none(voice: Any) -> None:
    assert _form(voice=voice).choices().voice == "none"


@pytest.mark.parametrize(
    ("seed", "least", "most"), [("", 0, MAX_SEED), (None, 0, MAX_SEED), ("-1", 0, MAX_SEED), (7.0, 7, 7)]
)
def test_seeds_as_boxes_give_them(seed: Any, least: int, most: int) -> None:
    assert least <= _form(seed=seed).choices().seed <= most


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
        ("seed", "abc", "The seed must be a whole number"),
        ("seed", "-2", "The seed must be from 0"),
        ("seed", "9" * 5000, "The seed must be"),
    ],
)
def test_what_cannot_be_used_is_said(field: str, value: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as refused:
        _form(**{field: value}).choices()
    assert len(refused.value.sentence) < 200


@pytest.mark.parametrize(("value", "whole"), [(0, 0), (10**9, 10**9), (25.0, 25)])
def test_whole_numbers_as_sliders_give_them(value: Any, whole: int) -> None:
    assert _form(audio_top_k=value).sampling().audio_top_k == whole


@given(st.lists(VALUES, max_size=12))
@example([None] * len(FIELDS))
@example([10**400] * len(FIELDS))
@example(["", "none", 10**400, 0, 0, 0, 1, ""])
def test_any_values_give_choices_or_a_sentence(values: list[Any]) -> None:
    try:
        choices = Form.from_args(values).choices()
    except InvalidInput as error:
        assert error.sentence and len(error.sentence) < 300
    else:
        assert isinstance(choices, Choices) and 0 <= choices.seed <= MAX_SEED


@given(st.sampled_from(FIELDS), VALUES)
def test_any_one_value_gives_choices_or_a_sentence(field: str, value: Any) -> None:
    try:
        assert isinstance(_form(**{field: value}).choices(), Choices)
    except InvalidInput as error:
        assert error.sentence and len(error.sentence) < 300


def test_every_value_that_holds_is_described() -> None:
    words = describe_sampling(SamplingSettings(0.5, 0.25, 0, 7, 1.5))
    assert words == (
        "audio temperature 0.5, text temperature 0.25, audio top-k off, text top-k 7, repetition penalty 1.5"
    )
