"""How talks with a miniature are marked: words, silence, interruptions; and the caller who holds them."""

from __future__ import annotations

from itertools import repeat

import numpy as np
import pytest

from training.evaluation.caller import FRAME, Caller, Exchange, Plan
from training.evaluation.marks import Mark, figures, mark, table, yield_seconds
from training.evaluation.words import is_heard_right, is_right, word_error_rate, words
from training.world.questions import Asked

NAME = Asked("name", "", "What is your name?")
ANSWERS = [["My name is Kate."]]
NAMES = {"talk": "0", "voice": "joe", "line": "quiet"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The bike costs $45.", "the bike costs forty five dollars"),
        ("We're open until 6 p.m.", "Were open until six P M"),
        ("10% off", "ten percent off"),
        ("$120", "one hundred twenty dollars"),
        ("Okay", "ok."),
    ],
)
def test_the_same_words_in_other_letters_are_the_same(one: str, other: str) -> None:
    assert words(one) == words(other)


def test_right_is_word_for_word_and_heard_right_within_a_fifth() -> None:
    assert is_right("My name is Kate.", ANSWERS) and not is_right("My name is Kay.", ANSWERS)
    long = [["I am sorry, I do not know that."]]
    assert is_heard_right("I'm sorry I do not know that", long) is False  # two of eight
    assert is_heard_right("I am sorry I do not know this", long)
    assert word_error_rate("one two three four", "one three four five") == 0.5


def _talk(loud: list[bool], exchange: Exchange, text: str = "My name is Kate.", heard: str = "my name is kate") -> Mark:
    return mark(exchange, ANSWERS, text, heard, loud, NAMES)


def test_an_answer_is_timed_from_the_end_of_the_question() -> None:
    loud = [False] * 10 + [True] * 10 + [False] * 20
    one = _talk(loud, Exchange(NAME, begins=0, ends=5, until=40))
    assert one.answer_seconds == pytest.approx(0.4) and not one.silent and one.right and one.heard_right
    silent = _talk([False] * 60, Exchange(NAME, begins=0, ends=5, until=60), text="", heard="")
    assert silent.answer_seconds is None and silent.silent and not silent.right


def test_a_name_that_is_wrong_in_the_text_is_not_heard_right() -> None:
    exchange = Exchange(Asked("my_name", "Sam", ""), begins=0, ends=1, until=5)
    answers = [["Nice to meet you, Sam."]]
    wrong = mark(exchange, answers, "Nice to meet you, Ben.", "nice to meet you ben", [True] * 5, NAMES)
    assert not wrong.right and not wrong.heard_right


def test_yielding_is_timed_from_the_beginning_of_the_interruption() -> None:
    loud = [True] * 20 + [False] * 30
    over = Exchange(NAME, begins=10, ends=14, until=50, interrupts=True)
    assert yield_seconds(over, loud) == pytest.approx(0.8)
    assert yield_seconds(over, [True] * 50) == pytest.approx(3.2)
    assert yield_seconds(Exchange(NAME, begins=10, ends=14, until=50), loud) is None


def test_the_table_tells_the_figures_of_what_counts() -> None:
    loud = [False] * 10 + [True] * 10 + [False] * 20
    good = _talk(loud, Exchange(NAME, begins=0, ends=5, until=40))
    cut = _talk(loud, Exchange(NAME, begins=0, ends=5, until=40, cut=True), text="My name")
    made = figures([good, good, cut])
    assert (made["questions"], made["right"], made["silent"]) == (2, 2, 0)
    assert "| right by text | 2 of 2 (100 %) |" in table([good, good, cut], {"speed": "0.5"})


def _say(asked: Asked) -> np.ndarray:
    return np.full(3 * FRAME, 0.1, np.float32)


def _hold(frames: int, answer_from: int, answer_frames: int, plan: Plan) -> Caller:
    """A persona that answers so many frames after each question, for so long."""
    caller, since = Caller(repeat(plan), _say), 1000
    for _ in range(frames):
        since = 0 if caller.speak().any() else since + 1
        loud = answer_from <= since < answer_from + answer_frames
        caller.hear(np.full(FRAME, 0.1 if loud else 0.0, np.float32))
    return caller


def test_the_caller_waits_for_the_answer_and_its_end() -> None:
    caller = _hold(300, answer_from=5, answer_frames=20, plan=Plan(NAME))
    first, second = caller.exchanges[:2]
    assert second.begins - first.ends >= 5 + 20 + 10 and not any(one.cut for one in caller.exchanges)


def test_the_caller_asks_on_where_no_answer_comes() -> None:
    caller = _hold(300, answer_from=999, answer_frames=0, plan=Plan(NAME))
    first, second = caller.exchanges[:2]
    assert 60 < second.begins - first.ends < 80


def test_the_caller_talks_over_an_answer_without_end() -> None:
    caller = _hold(300, answer_from=5, answer_frames=999, plan=Plan(NAME))
    first, second = caller.exchanges[:2]
    assert 100 < second.begins - first.ends < 150


def test_the_caller_interrupts_a_long_answer() -> None:
    caller = _hold(200, answer_from=5, answer_frames=60, plan=Plan(NAME, then=Asked("stop", "", "Stop.")))
    first, second = caller.exchanges[:2]
    assert first.cut and second.interrupts and 10 <= second.begins - first.ends <= 20
