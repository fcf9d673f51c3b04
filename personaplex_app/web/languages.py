"""The page's languages on the server's side: which there are, their words, and a sentence of ours said in one of them.

`static/sentences.js` does the same on the page. A table has four parts: `page` (what scripts and HTML parts show),
`server` (sentences made here, with placeholders), `boxes` (gradio's labels) and `starting` (the first page).
In: `static/locales/*.json`, English sentences, a browser's wishes. Out: words; what is unknown stays English.
Must not know: gradio, who says what.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LOCALES = Path(__file__).parent / "static" / "locales"
TAGS = {"en": "en", "zh": "zh-CN", "ko": "ko"}  # as browsers and gradio name them
PARTS = ("page", "server", "boxes", "starting")
PLACE = re.compile(r"\{(\w+)\}")
MOST_WISHES = 20
MOST_SENTENCES = 30  # that are looked at
MOST_JOINED = 12  # pieces that one template may span
DEEPEST = 3  # values within values
FEW_LETTERS = 4  # a template with fewer of its own, such as `{seconds} min`, takes figures only
_ENDS = re.compile(r"((?<=[.!?:…*`)。！？])\s+|\n+)")  # what may stand between two sentences
_TIGHT_END = re.compile(r"[。！？]$")

Words = Mapping[str, str]


@dataclass(frozen=True)
class _Template:
    """A sentence with places for values: how it is recognized, and how it is said."""

    pattern: re.Pattern[str]
    names: tuple[str, ...]
    other: str
    weight: int


class Table:
    """One language's words.

    Attributes:
        parts: by name (`PARTS`), each from English to the language.
    """

    def __init__(self, language: str, parts: Mapping[str, Words]) -> None:
        self.language = language
        self.parts = {name: dict(parts.get(name, {})) for name in PARTS}
        self._exact = {**self.parts["boxes"], **self.parts["page"], **self.parts["server"]}
        templates = [_template(key, other) for key, other in self.parts["server"].items() if PLACE.search(key)]
        self._templates = sorted(templates, key=lambda one: -one.weight)

    def translated(self, text: str, depth: int = 0) -> str:
        """A sentence, or several one after another, as far as they are known."""
        whole = self._phrase(text, depth)
        return self._joined(text, depth) if whole is None else whole

    def _phrase(self, text: str, depth: int) -> str | None:
        if text in self._exact:
            return self._exact[text]
        for one in self._templates:
            match = one.pattern.fullmatch(text)
            if match:
                values = {name: match[1 + one.names.index(name)] for name in one.names}
                return filled(one.other, {name: self._value(value, depth) for name, value in values.items()})
        return None

    def _value(self, value: str, depth: int) -> str:
        """A value may be a sentence itself, or a part of one with a space before it."""
        bare = value.strip()
        said = self.translated(bare, depth + 1) if bare and depth < DEEPEST else bare
        return value.replace(bare, said, 1) if bare else value

    def _joined(self, text: str, depth: int) -> str:
        """Sentence after sentence, the longest that are known first."""
        pieces = _ENDS.split(text)  # sentence, space, sentence, ...
        if len(pieces) > 2 * MOST_SENTENCES:
            return text
        said, at = "", 0
        while at < len(pieces):
            end = min(len(pieces), at + 2 * MOST_JOINED - 1)
            other = None
            while other is None and end > at:
                other = None if end - at == len(pieces) else self._phrase("".join(pieces[at:end]), depth)
                end -= 0 if other is not None else 2
            end = end if other is not None else at + 1
            said += pieces[at] if other is None else other
            if end < len(pieces):
                tight = self.language == "zh" and pieces[end] == " " and _TIGHT_END.search(said)
                said += "" if tight else pieces[end]
            at = end + 1
        return said


def filled(sentence: str, values: Mapping[str, str]) -> str:
    """A sentence with its values in their places."""
    return PLACE.sub(lambda place: values.get(place[1], place[0]), sentence)


def _template(key: str, other: str) -> _Template:
    pieces = PLACE.split(key)  # text, name, text, ...
    names, own = tuple(pieces[1::2]), "".join(pieces[::2])
    value = "(.*?)" if sum(map(str.isalpha, own)) >= FEW_LETTERS else r"([\d.,]+)"
    pattern = "".join(re.escape(piece) if index % 2 == 0 else value for index, piece in enumerate(pieces))
    return _Template(re.compile(pattern), names, other, len(own))


@cache
def table_of(language: str) -> Table:
    """The words of a language; English has none, since its sentences are the keys."""
    if language not in TAGS or language == "en":
        return Table("en", {})
    return Table(language, json.loads((LOCALES / f"{language}.json").read_text(encoding="utf-8")))


def wished_language(accept_language: str) -> str:
    """The first that we have among what a browser says that it wants; English where there is none."""
    wishes = []
    for place, wish in enumerate(accept_language.split(",")[:MOST_WISHES]):
        tag, _, weight = wish.partition(";")
        language = tag.strip().lower().partition("-")[0]
        if language in TAGS:
            wishes.append((-_weight(weight), place, language))
    return min(wishes)[2] if wishes else "en"


def _weight(text: str) -> float:
    try:
        return float(text.strip().removeprefix("q=")) if text else 1.0
    except ValueError:
        return 0.0
