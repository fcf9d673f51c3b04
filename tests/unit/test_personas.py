"""Personas are strict YAML: both folders load, and every mistake is named with its file, its line and what is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

import personaplex_app
from personaplex_app.controls import SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.personas import QUESTIONS, Persona, load_personas, read_persona

ROOT = Path(__file__).parents[2]
DEMO = Path(personaplex_app.__file__).parent / "checkpoints" / "demo" / "personas"
GOOD = """\
id: kate
title: Kate
pitch: Sells bikes.
prompt: You sell bikes.
voice: NATF0
ask: [One, Two, Three]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kate.yaml"


def _read(file: Path, text: str) -> Persona:
    file.write_text(text, encoding="utf-8")
    return read_persona(file)


@pytest.mark.parametrize(
    ("directory", "ids"),
    [
        (ROOT / "personas", ["assistant", "service-desk", "casual", "astronaut"]),
        (DEMO, ["kate", "martin", "julia", "teacher"]),
    ],
    ids=["real", "demo"],
)
def test_the_first_four_of_each_folder(directory: Path, ids: list[str]) -> None:
    personas = load_personas(directory)
    assert [persona.id for persona in personas][:4] == ids
    assert all(len(persona.ask) == QUESTIONS and persona.pitch and persona.licence for persona in personas)
    assert all("<system>" not in persona.prompt for persona in personas), "wrapping is not the author's work"


def test_demo_personas_name_voices_that_are_there() -> None:
    there = {path.stem for path in (DEMO.parent / "voices").glob("*.pt")}
    assert {persona.voice for persona in load_personas(DEMO)} <= there


def test_what_is_left_out_has_its_default(file: Path) -> None:
    persona = _read(file, GOOD)
    assert persona == Persona(
        "kate", "Kate", "Sells bikes.", "You sell bikes.", "NATF0", ("One", "Two", "Three"), (), "", "MIT", 100, {}
    )
    assert persona.sampling_over(SamplingSettings(audio_top_k=9)) == SamplingSettings(audio_top_k=9)


def test_sampling_says_only_what_differs(file: Path) -> None:
    persona = _read(file, GOOD + "sampling: {text_temperature: 0.2}\n")
    assert persona.sampling_over(SamplingSettings(audio_top_k=9)) == SamplingSettings(
        audio_top_k=9, text_temperature=0.2
    )


def test_an_empty_prompt_is_a_prompt(file: Path) -> None:
    assert _read(file, GOOD.replace("You sell bikes.", '""')).prompt == ""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "kate.yaml must hold a mapping with the keys id, title, "),
        ("- a\n- b\n", "kate.yaml must hold a mapping with the keys"),
        ("a: [", "kate.yaml is not readable YAML: .*line [12]"),
        (GOOD + "\x00", "kate.yaml is not readable YAML"),
        (GOOD.replace("voice: NATF0\n", ""), "kate.yaml lacks voice."),
        ("id: kate\n", "kate.yaml lacks title, pitch, prompt, voice, ask."),
        (GOOD + "tilte: x\n", "kate.yaml, line 7: unknown key 'tilte'; known are id, title, .*, order"),
        (GOOD + "id: other\n", "kate.yaml, line 7: 'id' stands there twice"),
        (GOOD.replace("Kate", "[Kate]"), "kate.yaml, line 2: 'title' must be a text"),
        (GOOD.replace("Kate", '" "'), "kate.yaml, line 2: 'title' must be a text"),
        (GOOD.replace("You sell bikes.", ""), "kate.yaml, line 4: 'prompt' must be a text"),
        (GOOD.replace(", Three", ""), "kate.yaml, line 6: 'ask' must hold 3 things to ask"),
        (GOOD.replace("[One, Two, Three]", "One"), "kate.yaml, line 6: 'ask' must be a list of texts"),
        (GOOD.replace("Three", "3"), "kate.yaml, line 6: 'ask' must be a list of texts"),
        (GOOD + "tags: [a, '']\n", "kate.yaml, line 7: 'tags' must be a list of texts"),
        (GOOD + "order: first\n", "kate.yaml, line 7: 'order' must be a whole number"),
        (GOOD + "order: true\n", "kate.yaml, line 7: 'order' must be a whole number"),
        (GOOD + "sampling: hot\n", "kate.yaml, line 7: 'sampling' must be a mapping"),
        (GOOD + "sampling: {top_p: 1}\n", "kate.yaml: Unknown sampling setting 'top_p'; known are"),
        (GOOD + "sampling: {text_top_k: -1}\n", "kate.yaml: Text top-k must be from 0"),
        (GOOD.replace("NATF0", "../NATF0"), "kate.yaml: '../NATF0' is no voice name"),
        (GOOD.replace("id: kate", "id: a/b"), "kate.yaml: 'a/b' is no "),
        (GOOD.replace("Kate", "!!python/object:os.system x"), "kate.yaml, line 2: 'title' holds something"),
        (GOOD + "order: 2026-99-99\n", "kate.yaml, line 7: 'order' holds something that is no plain YAML"),
        (GOOD + "order: !!int x\n", "kate.yaml, line 7: 'order' holds something"),
        (GOOD + "order: !!bool x\n", "kate.yaml, line 7: 'order' holds something"),
        (GOOD + "order: !!timestamp x\n", "kate.yaml, line 7: 'order' holds something"),
        (GOOD + "sampling: {? [a] : 1}\n", "kate.yaml, line 7: 'sampling' holds something"),
        (GOOD + "tags: &t [*t]\n", "kate.yaml, line 7: 'tags' holds something"),
        (GOOD + "tags: " + "[" * 3000 + "]" * 3000 + "\n", "kate.yaml is not readable YAML"),
    ],
)
def test_every_mistake_is_named(file: Path, text: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as refused:
        _read(file, text)
    assert "\n" not in refused.value.sentence and len(refused.value.sentence) < 600


def test_files_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"id: \xff\xfe")
    for path in (file, tmp_path / "nowhere.yaml", tmp_path):
        with pytest.raises(InvalidInput, match=f"{path.name} is not readable YAML"):
            read_persona(path)


def test_the_order_is_the_field_s_and_ids_are_unique(tmp_path: Path) -> None:
    for name, order in (("a", 3), ("b", 1), ("c", 1)):
        (tmp_path / f"{name}.yaml").write_text(GOOD.replace("id: kate", f"id: {name}") + f"order: {order}\n")
    (tmp_path / "notes.txt").write_text("not a persona")
    assert [persona.id for persona in load_personas(tmp_path)] == ["b", "c", "a"]
    (tmp_path / "z.yaml").write_text(GOOD.replace("id: kate", "id: b"))
    with pytest.raises(InvalidInput, match=r"Two personas in .* have the id 'b'"):
        load_personas(tmp_path)


TAGS = ["!!int ", "!!float ", "!!bool ", "!!timestamp ", "!!binary ", "!!set ", "!!omap ", "!!python/none "]
SIGNS = [*" \n-?:&*|>\"'%@\t{}[],~", "- ", "? ", ": ", "&a ", "*a", "<<: ", "---", "...", "é", "\u2028"]
VALUES = ["0b_", "0x_", "1:2", "2026-99-99", "sampling:", "order:", "tags:"]
YAML_PARTS = st.sampled_from([*GOOD.splitlines(keepends=True), *TAGS, *SIGNS, *VALUES])


@settings(max_examples=300, deadline=None)
@given(st.lists(YAML_PARTS, max_size=15).map("".join) | st.text(max_size=60), st.booleans())
@example("order: 0b_", True)
@example("sampling: {audio_top_k: 0x_}", True)
@example("? {a: b}\n: c", False)
def test_any_text_gives_a_persona_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, text: str, good: bool
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    try:
        assert isinstance(_read(file, (GOOD if good else "") + text), Persona)
    except UnicodeEncodeError:
        assert not text.isascii(), "a lone surrogate is no text that a file can hold"
    except InvalidInput as error:
        assert error.sentence.startswith("fuzz.yaml")


FIELDS = st.sampled_from(["id", "title", "prompt", "voice", "ask", "tags", "order", "sampling", "licence", "other"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(FIELDS, ANYTHING, max_size=3))
def test_any_value_in_any_field_gives_a_persona_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, object]
) -> None:
    values = {**yaml.safe_load(GOOD), **changes}
    try:
        persona = _read(tmp_path_factory.getbasetemp() / "fuzz.yaml", yaml.safe_dump(values))
    except InvalidInput as error:
        assert error.sentence.startswith("fuzz.yaml")
    else:
        assert len(persona.ask) == QUESTIONS and isinstance(persona.sampling_over(SamplingSettings()), SamplingSettings)
