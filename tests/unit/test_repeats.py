"""A loop of words is found wherever tokens cut it, and ordinary speech is never taken for one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.engine.repeats import LONGEST_PHRASE_WORDS, MOST_LETTERS, MOST_TIMES, WINDOW_FRAMES, Repeats

FAST = 2  # frames a word: six words a second
USUAL = 4


def scripted(text: str, frames_a_word: int) -> list[bytes]:
    """A token a word, each in its first frame; at the end nothing for a while."""
    pieces = [[b" " + word.encode(), *[b""] * (frames_a_word - 1)] for word in text.split()]
    return [*itertools.chain.from_iterable(pieces), b"", b"", b""]


def found(pieces: Iterable[bytes]) -> list[str]:
    repeats = Repeats()
    return [phrase for frame, piece in enumerate(pieces) if (phrase := repeats.saw(piece, frame))]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("no no no no no", "no"),
        ("Yes. yes, YES yes yes!", "Yes"),
        ("Well, I'm sorry. I'm sorry. I'm sorry, I'm sorry. I'm sorry.", "I'm sorry"),
        ("and then I and then I and then I and then I and then I", "and then I"),
        ("no-no-no-no-no", "no"),
        ("ja… ja… ja… ja… ja…", "ja"),
        ("größer größer größer größer größer", "größer"),
    ],
)
def test_the_fifth_time_is_one_too_many(text: str, phrase: str) -> None:
    assert found(scripted(text, FAST)) == [phrase]
    less = text.rsplit("-" if "-" in text else " ", 1)[0]
    assert found(scripted(less, FAST)) == [], "four times are not"


@pytest.mark.parametrize("length", range(1, LONGEST_PHRASE_WORDS + 1))
def test_phrases_of_up_to_six_words(length: int) -> None:
    phrase = " ".join(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"][:length])
    assert found(scripted(" ".join([phrase] * 5), FAST)) == [phrase]


def test_a_phrase_of_seven_words_is_no_loop_of_words() -> None:
    assert found(scripted("alpha beta gamma delta epsilon zeta eta " * 5, 1)) == []


def test_every_time_more_is_found_again() -> None:
    assert found(scripted("no " * 8, USUAL)) == ["no"] * 4


@pytest.mark.parametrize(
    "text",
    [
        "yes, yes, I see",
        "Yes, yes. Yes, I see. Yes!",
        "one, two, three, four, five, six, seven, eight, nine, ten",
        "twenty one, twenty two, twenty three, twenty four, twenty five, twenty six",
        "M I S S I S S I P P I",
        "that is A, double B, A, B, A, B, A, C",
        "la la la la",
        "la la la la, hey, la la la la, hey hey, la la la la",
        "the cat and the dog and the bird and the fish and the cow and the pig",
        "a kind of bread, a kind of cake, a kind of pie, a kind of roll, a kind of bun",
        "I know that you know that I know that you know it",
        "Well, the thing is that the garden was large, and the house that stood in the garden was larger than the "
        "house of the man who had the garden next to the garden, and so the two of them, who never spoke, spoke.",
        "ha ha ha! No, no, no. Very, very, very, very good.",
    ],
)
@pytest.mark.parametrize("frames_a_word", [1, FAST, USUAL])
def test_ordinary_speech_is_no_loop(text: str, frames_a_word: int) -> None:
    assert found(scripted(text, frames_a_word)) == []


def test_what_takes_longer_than_the_window_is_no_loop() -> None:
    just, slower = WINDOW_FRAMES // MOST_TIMES, WINDOW_FRAMES // MOST_TIMES + 1
    assert found(scripted("no no no no no", just)) == ["no"]
    assert found(scripted("no " * 20, slower)) == []


def test_words_in_many_tokens_and_letters_in_bytes() -> None:
    pieces = [b" ", b"s", b"or", b"ry", b","] * 5
    assert found([*pieces, b" so"]) == ["sorry"], "and the next word ends the last"
    assert found([bytes([byte]) for byte in " 東京 東京 東京 東京 東京 ".encode()]) == ["東京"]


def test_a_word_is_whole_before_it_counts() -> None:
    assert found([b" yes", b" yes", b" yes", b" yes", b" yes", b"", b"", b"terday", b" I"]) == []


def test_a_word_without_an_end_takes_no_memory() -> None:
    repeats = Repeats()
    for frame in range(10_000):
        repeats.saw(b"abcde", frame)
        assert len(repeats._letters) <= MOST_LETTERS + 5


def test_what_was_forgotten_does_not_count() -> None:
    repeats, pieces = Repeats(), scripted("no no no no", FAST)
    for frame, piece in enumerate(pieces):
        repeats.saw(piece, frame)
    repeats.clear()
    assert not any(repeats.saw(piece, len(pieces) + frame) for frame, piece in enumerate(pieces))


@given(st.lists(st.binary(max_size=6), max_size=80))
def test_whatever_comes_is_taken(pieces: list[bytes]) -> None:
    for phrase in found(pieces):
        phrase.encode()


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
    st.lists(st.sampled_from("xyz"), max_size=8),
    st.booleans(),
)
def test_a_loop_is_found_after_whatever_came_before(phrase: list[str], before: list[str], shout: bool) -> None:
    text = " ".join([*before, *phrase * 5])
    assert found(scripted(text.upper() if shout else text, FAST))
