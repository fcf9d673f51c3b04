"""The fields of a persona: which there are, what may stand in each, and how long it may be.

In: plain values, as YAML or JSON bring them. Out: cleaned values, or `FieldProblem`, a sentence that says what can
stand there. Must not know: files, lines, the model, the web.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from personaplex_app.controls import SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.voices import is_voice_name

REQUIRED = ("id", "title", "pitch", "prompt", "voice", "ask")
OPTIONAL = ("author", "licence", "tags", "sampling", "order")
KNOWN = (*REQUIRED, *OPTIONAL)
SAMPLING = ("audio_temperature", "text_temperature", "audio_top_k", "text_top_k", "repetition_penalty")
QUESTIONS = 3
MOST_TAGS = 8
MOST_ORDER = 9_999
MOST_NUMBER = 10**15  # beyond it a number is told by its kind, not by all of its digits
MOST_CHARACTERS = {
    "title": 80,
    "pitch": 160,
    "prompt": 20_000,
    "ask": 200,
    "tags": 24,
    "author": 80,
    "licence": 60,
}
_UNREADABLE = re.compile(  # controls, separators and marks that turn the reading direction round, half pairs
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


class FieldProblem(InvalidInput):
    """A field that cannot be used.

    Attributes:
        key: the field's name, None where it is about the whole. part: a key or the number of an item in the field.
    """

    def __init__(self, sentence: str, key: str | None = None, part: str | int | None = None) -> None:
        super().__init__(sentence)
        self.key = key
        self.part = part


def checked_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """All fields, cleaned; raises FieldProblem for the first that is unknown or cannot be used, or that is missing."""
    for key in values:
        if key not in KNOWN:
            raise FieldProblem(unknown_key(str(key), KNOWN), key)
    found = {key: _CHECKS[key](key, value) for key, value in values.items()}
    missing = [key for key in REQUIRED if key not in found]
    if missing:
        raise FieldProblem(f"{', '.join(missing)} must be there too; a persona needs {', '.join(REQUIRED)}.")
    return found


def unknown_key(key: str, known: tuple[str, ...]) -> str:
    """A sentence that names the keys there are, the likeliest first."""
    near = get_close_matches(key[:40], known, n=1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return f"unknown key {key[:40]!r}{meant}; known are {', '.join(known)}."


def clean_text(key: str, value: Any, most: int, part: str | int | None = None, lines: bool = False) -> str:
    """A text without white space around it; one line, or several."""
    if not isinstance(value, str):
        raise FieldProblem(f"{key!r} must be a text, not {_kind(value)}.", key, part)
    text = re.sub("\r\n?", "\n", value).strip()
    if len(text) > most:
        raise FieldProblem(f"{key!r} has {len(text):,} characters; at most {most:,} can stand there.", key, part)
    strange = _UNREADABLE.search(text)
    if strange:
        raise FieldProblem(f"{key!r} holds the character U+{ord(strange[0]):04X}, which nobody can read.", key, part)
    if not lines and ("\n" in text or "\t" in text):
        raise FieldProblem(f"{key!r} must stand on one line, without tabs.", key, part)
    return text


def _text(key: str, value: Any) -> str:
    text = clean_text(key, value, MOST_CHARACTERS[key])
    if not text and key in REQUIRED:
        raise FieldProblem(f"{key!r} must be a text; it is empty.", key)
    return text


def _prompt(key: str, value: Any) -> str:
    return clean_text(key, value, MOST_CHARACTERS[key], lines=True)


def _name(key: str, value: Any) -> str:
    if not is_voice_name(value):
        raise FieldProblem(
            f"{key!r} must be a name of at most 32 letters, digits, '_' and '-', not {_shown(value)}.", key
        )
    return str(value)


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise FieldProblem(f"{key!r} must be a list of texts, not {_kind(value)}.", key)
    if len(value) > MOST_TAGS:
        raise FieldProblem(f"{key!r} holds {len(value)} texts; at most {MOST_TAGS} can stand there.", key, MOST_TAGS)
    texts = tuple(clean_text(key, item, MOST_CHARACTERS[key], index) for index, item in enumerate(value))
    for index, text in enumerate(texts):
        if not text:
            raise FieldProblem(f"{key!r} must be a list of texts; one is empty.", key, index)
        if text in texts[:index]:
            raise FieldProblem(f"{key!r} holds {text[:40]!r} twice.", key, index)
    return texts


def _questions(key: str, value: Any) -> tuple[str, ...]:
    texts = _texts(key, value)
    if len(texts) != QUESTIONS:
        raise FieldProblem(f"{key!r} must hold {QUESTIONS} things to ask, not {len(texts)}.", key)
    return texts


def _order(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_ORDER:
        raise FieldProblem(f"{key!r} must be a whole number from 0 to {MOST_ORDER}, not {_shown(value)}.", key)
    return value


def _sampling(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise FieldProblem(f"{key!r} must be a mapping with keys of {', '.join(SAMPLING)}, not {_kind(value)}.", key)
    for name, number in value.items():
        if name not in SAMPLING:
            raise FieldProblem(f"{key!r}: {unknown_key(str(name), SAMPLING)}", key, name)
        if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < MOST_NUMBER:
            raise FieldProblem(f"{key!r}: {name} must be a number, not {_shown(number)}.", key, name)
        try:
            SamplingSettings.from_mapping({name: number})
        except InvalidInput as error:
            raise FieldProblem(f"{key!r}: {error.sentence}", key, name) from None
    return dict(value)


def _kind(value: Any) -> str:
    kinds = {type(None): "nothing", bool: "yes or no", str: "a text", list: "a list", dict: "a mapping"}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number"
    return kinds.get(type(value), "something else")


def _shown(value: Any) -> str:
    """A short text or number itself, anything else by its kind."""
    if isinstance(value, str):
        return ascii(value[:40])
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}" if number and not abs(value) >= MOST_NUMBER else _kind(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "id": _name,
    "title": _text,
    "pitch": _text,
    "prompt": _prompt,
    "voice": _name,
    "ask": _questions,
    "author": _text,
    "licence": _text,
    "tags": _texts,
    "sampling": _sampling,
    "order": _order,
}
