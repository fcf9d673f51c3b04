"""The shapes of prompt that the model was trained on: which one a text has, and what it would look like in the nearest.

An assistant: one sentence. A service desk: who it works for, its name, its facts. A talker: one sentence, then a topic
and who they are. Everything here takes time in proportion to the text's length, however it is written.
In: texts. Out: shapes, `Desk` values, templates. Must not know: tokens, the model, the web.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from personaplex_app.errors import InvalidInput
from personaplex_app.persona_fields import clean_text

Shape = Literal["assistant", "service", "casual", "other"]
ADVICE = "Answer questions or provide advice in a clear and engaging way."
TEACHER = f"You are a wise and friendly teacher. {ADVICE}"
TALKER = "You enjoy having a good conversation."
MARK = "<system>"
MOST_DESK_CHARACTERS = {"company": 80, "kind": 80, "name": 80, "facts": 4_000}
READ_CHARACTERS = 4_000  # of a prompt that has no shape, where company, kind and name are looked for

_ASSISTANT = re.compile(rf"You are an? [^.]{{1,80}}\. {re.escape(ADVICE)}", re.IGNORECASE)
_DESK = ("You work for ", " which is ", " and your name is ", ". Information: ")
_ARTICLE = re.compile(r"an?\s+", re.IGNORECASE)
_LIKE_A_CONSONANT = re.compile(r"(?:uni|use|usu|eu|one\b|once)", re.IGNORECASE)
_LIKE_A_VOWEL = re.compile(r"(?:[aeiou]|hour|honest|heir)", re.IGNORECASE)


@dataclass(frozen=True)
class Desk:
    """What a service desk's prompt says; `kind` without its article, `facts` as whole sentences."""

    company: str
    kind: str
    name: str
    facts: str

    @property
    def prompt(self) -> str:
        """The prompt in the trained shape."""
        kind = f"{article(self.kind)} {self.kind}"
        return f"You work for {self.company} which is {kind} and your name is {self.name}. Information: {self.facts}"


EMPTY_DESK = Desk("COMPANY", "KIND", "NAME", "FACTS")


@dataclass(frozen=True)
class Nearest:
    """A prompt in the trained shape that comes nearest; `desk` where that is a service desk's."""

    shape: Shape
    template: str
    desk: Desk | None = None


def article(noun: str) -> str:
    """`a` or `an`, by the sound that a noun begins with."""
    return "a" if _LIKE_A_CONSONANT.match(noun) or not _LIKE_A_VOWEL.match(noun) else "an"


def one_line(prompt: str) -> str:
    """A prompt without its `<system>` marks, all white space single."""
    text = " ".join(prompt.split())
    if len(text) >= 2 * len(MARK) and text.startswith(MARK) and text.endswith(MARK):
        text = text[len(MARK) : -len(MARK)].strip()
    return text


def shape_of(prompt: str) -> Shape:
    """Which of the trained shapes a prompt has."""
    text = one_line(prompt)
    if text[: len(TALKER)].lower() == TALKER.lower():
        return "casual"
    if _ASSISTANT.match(text):
        return "assistant"
    return "other" if read_desk(text) is None else "service"


def read_desk(prompt: str) -> Desk | None:
    """What a service desk's prompt says; None for any other text."""
    rest, found = one_line(prompt), []
    for mark in _DESK:
        at = re.search(re.escape(mark), rest, re.IGNORECASE)
        if at is None:
            return None
        found.append(rest[: at.start()])
        rest = rest[at.end() :]
    before, company, kind, name = found
    if before or not _ARTICLE.match(kind) or not all(found[1:]):
        return None
    return Desk(company, _ARTICLE.sub("", kind, count=1), name, rest) if rest else None


def write_desk(values: Mapping[str, Any]) -> Desk:
    """A desk of what a form holds: `company`, `kind`, `name`, `facts`; raises InvalidInput."""
    known = [field.name for field in fields(Desk)]
    for key in values:
        if key not in known:
            raise InvalidInput(f"Unknown field {str(key)[:40]!r}; known are {', '.join(known)}.")
    company, kind, name, facts = (_desk_text(key, values.get(key, "")) for key in known)
    kind = _ARTICLE.sub("", kind, count=1)
    desk = Desk(company.rstrip("."), kind.rstrip("."), name.rstrip("."), facts if facts[-1] in ".!?" else f"{facts}.")
    for key, mark in zip(known, _DESK[1:], strict=False):
        if mark.strip(" .").lower() in getattr(desk, key).lower():
            raise InvalidInput(
                f"{key!r} holds {mark.strip(' .')!r}, which holds the prompt together; say it otherwise."
            )
    return desk


def _desk_text(key: str, value: Any) -> str:
    text = " ".join(clean_text(key, value, MOST_DESK_CHARACTERS[key], lines=True).split())
    if not text.strip(". "):
        raise InvalidInput(f"{key!r} must be a text; it is empty.")
    if MARK in text:
        raise InvalidInput(f"{key!r} holds {MARK}, which marks where a prompt begins and ends; leave it out.")
    return text
