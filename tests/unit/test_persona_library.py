"""The library that lies with the app: enough personas, each in a trained shape, of a length that a talk can bear."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import personaplex_app
from personaplex_app.controls import SamplingSettings
from personaplex_app.model.tokenizer import MAX_PROMPT_CHARACTERS, Tokenizer
from personaplex_app.persona_fields import MOST_CHARACTERS
from personaplex_app.personas import Persona, load_personas, parse_persona, persona_text
from personaplex_app.prompt_shapes import EMPTY_DESK, read_desk, shape_of

ROOT = Path(__file__).parents[2]
CHECKPOINTS = Path(personaplex_app.__file__).parent / "checkpoints"
LIBRARY = load_personas(ROOT / "personas")
OFFICIAL = {
    f"{style}{n}" for style, last in (("NATF", 3), ("NATM", 3), ("VARF", 4), ("VARM", 4)) for n in range(last + 1)
}
SHAPE_OF_TAG = {"service": "service", "assistant": "assistant", "casual": "casual", "character": "casual"}
SHORTEST, LONGEST = 24, 280  # tokens of the small tokenizer, which takes about twice as many as a large one
named = pytest.mark.parametrize("persona", LIBRARY, ids=lambda persona: persona.id)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """The trained miniature's, of 1,000 pieces."""
    return Tokenizer(CHECKPOINTS / "demo" / "tokenizer_spm_32k_3.model", 1000)


def test_there_are_enough_of_every_kind() -> None:
    kinds = Counter(persona.tags[0] for persona in LIBRARY)
    assert len(LIBRARY) >= 20 and set(kinds) == set(SHAPE_OF_TAG)
    assert kinds["service"] >= 9 and min(kinds.values()) >= 4
    assert len({persona.title for persona in LIBRARY}) == len({persona.prompt for persona in LIBRARY}) == len(LIBRARY)


def test_every_official_voice_speaks() -> None:
    assert {persona.voice for persona in LIBRARY} == OFFICIAL


@named
def test_a_prompt_has_the_shape_of_its_tag(persona: Persona) -> None:
    assert shape_of(persona.prompt) == SHAPE_OF_TAG[persona.tags[0]]
    desk = read_desk(persona.prompt)
    assert (desk is not None) == (persona.tags[0] == "service")
    assert desk is None or not set(vars(EMPTY_DESK).values()) & set(persona.prompt.split())
    assert desk is None or desk.company in persona.title or persona.id == "service-desk"


@named
def test_what_leaves_the_training_is_tagged_so(persona: Persona) -> None:
    assert ("out-of-distribution" in persona.tags) == ("character" in persona.tags)


@named
def test_a_prompt_is_neither_too_short_nor_too_long(persona: Persona, tokenizer: Tokenizer) -> None:
    assert SHORTEST <= len(tokenizer.encode_prompt(persona.prompt)) <= LONGEST


@named
def test_it_is_complete_and_plain(persona: Persona) -> None:
    told = [persona.title, persona.pitch, persona.prompt, *persona.ask]
    assert persona.author and persona.licence == "MIT" and persona.id == persona.id.lower()
    assert all(text.isprintable() and "  " not in text for text in told)
    assert "<" not in "".join(told), "wrapping is not the author's work"
    assert all(re.search(r"[.?!]$", text) for text in (persona.pitch, persona.prompt, *persona.ask))
    assert persona.sampling_over(SamplingSettings())
    assert parse_persona(persona_text(persona), "again.yaml") == persona


@named
def test_its_file_is_named_after_it(persona: Persona) -> None:
    assert (ROOT / "personas" / f"{persona.id}.yaml").is_file()


def test_the_clinic_listens_for_danger() -> None:
    clinic = next(persona for persona in LIBRARY if persona.id == "clinic-intake")
    for words in (
        "distress",
        "harming themselves",
        "stop the questions",
        "call the emergency number now",
        "no diagnosis",
    ):
        assert words in clinic.prompt
    assert "pretend" in clinic.pitch, "nobody should take it for a real one"


def test_a_prompt_may_be_as_long_as_the_tokenizer_takes() -> None:
    assert MOST_CHARACTERS["prompt"] == MAX_PROMPT_CHARACTERS
