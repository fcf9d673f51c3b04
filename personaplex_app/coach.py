"""The persona coach: how long a prompt is for this model, and whether it has a shape that the model was trained on.

In: a prompt, a voice's name, a `Ruler` of the model that runs (None where none does). Out: `Advice`.
Must not know: torch, the web, how tokens are made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.errors import InvalidInput
from personaplex_app.prompt_shapes import EMPTY_DESK, TALKER, TEACHER, Nearest, Shape, one_line, read_desk, shape_of
from personaplex_app.prompt_templates import nearest

MOST_PROMPT_CHARACTERS = 100_000  # that are answered at all
MOST_SHARE = 1 / 3
TEMPLATE_CHARACTERS = 20_000
_LETTERS_LOOKED_AT = 4_000
_MOST_FOREIGN = 0.2
_LIST = re.compile(r"^[ \t]{0,8}(?:[-*#•]|\d{1,3}[.)])[ \t]", re.MULTILINE)
NO_MODEL = "No model runs here, so nobody knows how many tokens this is."
_SHAPES: dict[Shape, str] = {
    "assistant": "An assistant, as the model was trained.",
    "service": "A service desk, as the model was trained.",
    "casual": "A talker, as the model was trained.",
    "other": "",
}
_LEAVES = "This has none of the shapes that the model was trained on, so it may follow it loosely; the nearest is"
_NEAREST: dict[Shape, str] = {
    "assistant": f"{_LEAVES} an assistant's, which begins: {TEACHER}",
    "service": f"{_LEAVES} a service desk's: who it works for, its name, then its facts.",
    "casual": f"{_LEAVES} a talker's: {TALKER} Then the topic and who they are.",
    "other": "",
}


@dataclass(frozen=True)
class Ruler:
    """How a model measures prompts.

    Attributes:
        encode: a prompt's tokens; raises InvalidInput for a text that cannot be a prompt.
        forced_positions: what voice and silence take, by the voice's name; raises InvalidInput for an unknown one.
        context: positions that the model remembers.
    """

    encode: Callable[[str], Sequence[int]]
    forced_positions: Callable[[str], int]
    context: int


@dataclass(frozen=True)
class Length:
    """How long a prompt is.

    Attributes:
        positions: voice, silence and tokens together, one a frame of 80 ms. share: of the window.
    """

    tokens: int
    positions: int
    context: int

    @property
    def seconds(self) -> float:
        return self.positions * FRAME_SECONDS

    @property
    def share(self) -> float:
        return self.positions / self.context

    @property
    def over(self) -> int:
        """By how many tokens it is too long."""
        return max(0, self.positions - int(self.context * MOST_SHARE))


@dataclass(frozen=True)
class Advice:
    """What the coach says.

    Attributes:
        length: None where no model runs, or the text is too long to be counted. fits: None where nobody knows.
        nearest: for a prompt that has none of the trained shapes.
    """

    length: Length | None
    fits: bool | None
    shape: Shape
    sentence: str
    nearest: Nearest | None


def advise(prompt: str, voice: str, ruler: Ruler | None) -> Advice:
    """Measures and looks; raises InvalidInput for a voice that is not there and for what is no text at all."""
    if len(prompt) > MOST_PROMPT_CHARACTERS:
        raise InvalidInput(
            f"The prompt has {len(prompt):,} characters; at most {MOST_PROMPT_CHARACTERS:,} are looked at.",
            code="too_large",
        )
    length, too_long = _measure(prompt, voice, ruler)
    shape = shape_of(prompt)
    near = nearest(prompt) if shape == "other" and len(prompt) <= TEMPLATE_CHARACTERS else None
    said = [
        too_long,
        NO_MODEL if ruler is None else "",
        _language(prompt),
        _NEAREST[near.shape] if near and prompt.strip() else _about(prompt, shape),
        "It was trained on plain sentences: lists and headings may be lost on it." if _LIST.search(prompt) else "",
    ]
    fits = None if ruler is None else not too_long
    return Advice(length, fits, shape, " ".join(part for part in said if part), near)


def _measure(prompt: str, voice: str, ruler: Ruler | None) -> tuple[Length | None, str]:
    """The length, and a sentence where it is too long."""
    if ruler is None:
        return None, ""
    forced = ruler.forced_positions(voice)
    try:
        tokens = len(ruler.encode(prompt))
    except InvalidInput as error:
        if error.code != "prompt_too_long":
            raise
        return None, error.sentence
    length = Length(tokens, forced + tokens, ruler.context)
    if not length.over:
        return length, ""
    return length, (
        f"The prompt is too long: its text takes {tokens:,} tokens and with voice and silence {length.positions:,} "
        f"positions, but at most {int(ruler.context * MOST_SHARE):,} fit. Shorten it by {length.over:,} tokens or more."
    )


def _about(prompt: str, shape: Shape) -> str:
    """What can be said of a prompt that has a trained shape, or is empty or too long for a template."""
    if not prompt.strip():
        return "Without a prompt nobody in particular answers."
    desk = read_desk(prompt) if shape == "service" else None
    if desk is not None:
        open_fields = [word for word in vars(EMPTY_DESK).values() if word in " ".join(vars(desk).values()).split(" ")]
        if open_fields:
            return f"A service desk, as the model was trained. Still to fill in: {', '.join(open_fields)}."
    if shape == "casual" and len(one_line(prompt)) == len(TALKER):
        return f"{_SHAPES[shape]} Add a topic and who they are, such as: You are Mira, you live by the sea."
    return _SHAPES[shape]


def _language(prompt: str) -> str:
    letters = [letter for letter in prompt[:_LETTERS_LOOKED_AT] if letter.isalpha()]
    foreign = sum(not letter.isascii() for letter in letters)
    return "The model was trained on English only." if foreign > _MOST_FOREIGN * len(letters) else ""
