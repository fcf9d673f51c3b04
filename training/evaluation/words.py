"""Words compared as a listener would: numbers spelled, punctuation gone.

In: texts. Out: lists of words, word errors. Must not know: sound.
"""

from __future__ import annotations

import re

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
SAME = {"ok": "okay", "favourite": "favorite", "colour": "color", "colours": "colors", "hi": "hello"}
RIGHT_WORD_ERROR = 0.2  # of what is heard against what is right


def spelled(number: int) -> str:
    """A number below 10,000 in words, as the little world says it."""
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f" {ONES[number % 10]}" if number % 10 else "")
    if number < 1000:
        return f"{ONES[number // 100]} hundred" + (f" {spelled(number % 100)}" if number % 100 else "")
    return f"{spelled(number // 1000)} thousand" + (f" {spelled(number % 1000)}" if number % 1000 else "")


def words(text: str) -> list[str]:
    """A text's words, plain."""
    plain = text.lower().replace("%", " percent ")
    plain = re.sub(r"\$ ?(\d+)", r"\1 dollars", plain)
    plain = re.sub(r"\b([ap])\.? ?m\b\.?", r"\1m", plain)
    plain = re.sub(r"(\d)([ap]m)", r"\1 \2", plain)
    plain = re.sub(r"\d+", lambda found: spelled(int(found.group()) % 10_000), plain)
    plain = re.sub(r"[^a-z' ]", " ", plain).replace("'", "")
    return [SAME.get(word, word) for word in plain.split()]


def word_errors(wanted: list[str], heard: list[str]) -> int:
    """How many words must be changed, added or left out."""
    row = list(range(len(heard) + 1))
    for index, word in enumerate(wanted, 1):
        before, row[0] = row[0], index
        for place, other in enumerate(heard, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (word != other))
    return row[-1]


def word_error_rate(wanted: str, heard: str) -> float:
    """Errors over the words that were wanted."""
    right = words(wanted)
    return word_errors(right, words(heard)) / max(1, len(right))


def is_right(text: str, answers: list[list[str]]) -> bool:
    """Whether a text is one of the right answers, word for word."""
    return any(words(text) == words(" ".join(one)) for one in answers)


def is_heard_right(heard: str, answers: list[list[str]]) -> bool:
    """Whether what a listener heard is at most a fifth away from one of the right answers."""
    return min(word_error_rate(" ".join(one), heard) for one in answers) <= RIGHT_WORD_ERROR
