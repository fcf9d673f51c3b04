"""Personas are strict YAML: both folders load, and every mistake is named with its file, its line and what is known."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

import personaplex_app
from personaplex_app.controls import SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.persona_fields import QUESTIONS, FieldProblem
from personaplex_app.personas import (
    Persona,
    load_personas,
    parse_persona,
    persona_from_mapping,
    persona_text,
    read_persona,
)

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
        ("", "kate.yaml must hold a mapping: lines such as 'title: My persona'."),
        ("- a\n- b\n", "kate.yaml must hold a mapping"),
        ("a: [", "kate.yaml, line 1, is not readable YAML: expected the node content"),
        ("id: kate\ntitle: [a\npitch: b\n", "kate.yaml, line 3, is not readable YAML: expected ',' or ']'"),
        ("id: kate\ntitle: a: b\n", "kate.yaml, line 2, is not readable YAML: mapping values are not allowed here"),
        ("id: kate\n---\nid: two\n", "kate.yaml, line 2, is not readable YAML: but found another document"),
        (GOOD + "\x00", r"kate.yaml, line 7, is not readable YAML: it holds the character '\\x00'"),
        (GOOD.replace("voice: NATF0\n", ""), "kate.yaml: voice must be there too; a persona needs id, title, pitch"),
        ("id: kate\n", "kate.yaml: title, pitch, prompt, voice, ask must be there too"),
        (
            GOOD + "tilte: x\n",
            r"kate.yaml, line 7: unknown key 'tilte' \(did you mean 'title'\?\); known are id, .* order",
        ),
        (GOOD + "1: x\n", "kate.yaml, line 7: unknown key '1'; known are id"),
        (GOOD + "<<: {title: x}\n", "kate.yaml, line 7: unknown key '<<'"),
        (GOOD + "id: other\n", "kate.yaml, line 7: 'id' stands there twice"),
        (GOOD + "? [a, b]\n: c\n", "kate.yaml, line 7: a key must be a word"),
        (GOOD.replace("Kate", "[Kate]"), "kate.yaml, line 2: 'title' must be a text, not a list"),
        (GOOD.replace("Kate", "2026-01-01"), "kate.yaml, line 2: 'title' must be a text, not something else"),
        (GOOD.replace("Kate", '" "'), "kate.yaml, line 2: 'title' must be a text; it is empty"),
        (GOOD.replace("Kate", '"a\\nb"'), "kate.yaml, line 2: 'title' must stand on one line"),
        (GOOD.replace("Kate", '"a\\u202eb"'), r"kate.yaml, line 2: 'title' holds the character U\+202E"),
        (GOOD.replace("You sell bikes.", ""), "kate.yaml, line 4: 'prompt' must be a text, not nothing"),
        (GOOD.replace(", Three", ""), "kate.yaml, line 6: 'ask' must hold 3 things to ask, not 2"),
        (GOOD.replace("[One, Two, Three]", "One"), "kate.yaml, line 6: 'ask' must be a list of texts, not a text"),
        (
            GOOD.replace("[One, Two, Three]", "\n- One\n- Two\n- 3"),
            "kate.yaml, line 9: 'ask' must be a text, not a number",
        ),
        (GOOD + "tags: [a, '']\n", "kate.yaml, line 7: 'tags' must be a list of texts; one is empty"),
        (GOOD + "tags: [a, a]\n", "kate.yaml, line 7: 'tags' holds 'a' twice"),
        (GOOD + "order: first\n", "kate.yaml, line 7: 'order' must be a whole number from 0 to 9999, not 'first'"),
        (GOOD + "order: true\n", "kate.yaml, line 7: 'order' must be a whole number from 0 to 9999, not yes or no"),
        (GOOD + "order: -1\n", "kate.yaml, line 7: 'order' must be a whole number from 0 to 9999, not -1"),
        (GOOD + f"order: {10**30}\n", "kate.yaml, line 7: 'order' must be .* not a number"),
        (GOOD + f"order: {'9' * 50_000}\n", "kate.yaml, line 7: '9999.* is too long for a number"),
        (GOOD + "order: " + "59:" * 9_000 + "1\n", "kate.yaml, line 7: .* is too long for a number"),
        (GOOD + "sampling: hot\n", "kate.yaml, line 7: 'sampling' must be a mapping with keys of audio_temperature, "),
        (GOOD + "sampling:\n  top_p: 1\n", "kate.yaml, line 8: 'sampling': unknown key 'top_p'.* known are audio_temp"),
        (GOOD + "sampling:\n  text_top_k: -1\n", "kate.yaml, line 8: 'sampling': Text top-k must be from 0"),
        (GOOD + "sampling: {text_top_k: 1.5}\n", "kate.yaml, line 7: 'sampling': Text top-k must be a whole number"),
        (GOOD + "sampling: {text_temperature: .nan}\n", "'sampling': text_temperature must be a number, not nan"),
        (GOOD + f"sampling: {{text_top_k: {10**30}}}\n", "'sampling': text_top_k must be a number"),
        (GOOD + "sampling: {text_top_k: 1, text_top_k: 2}\n", "kate.yaml, line 7: 'text_top_k' stands there twice"),
        (GOOD + "sampling: {penalty_window_tokens: 9}\n", "kate.yaml, line 7: 'sampling': unknown key 'penalty_window"),
        (GOOD.replace("NATF0", "../NATF0"), "kate.yaml, line 5: 'voice' must be a name of .* not '../NATF0'"),
        (GOOD.replace("id: kate", "id: a/b"), "kate.yaml, line 1: 'id' must be a name of at most 32 letters, "),
        (GOOD.replace("id: kate", "id: 5"), "kate.yaml, line 1: 'id' must be a name .* not 5"),
        (GOOD.replace("Kate", "!!python/object:os.system x"), r"kate.yaml, line 2: tags \('!'\) are not read here"),
        (GOOD + "order: 2026-99-99\n", "kate.yaml, line 7: '2026-99-99' is no plain YAML"),
        (GOOD + "order: =\n", "kate.yaml, line 7: '=' is no plain YAML"),
        (GOOD + "order: !!int x\n", "kate.yaml, line 7: tags"),
        (GOOD + "tags: &t [a]\n", "kate.yaml, line 7: anchors and aliases"),
        (GOOD + "tags: [*t]\n", "kate.yaml, line 7: anchors and aliases"),
        (
            GOOD + "tags: [[a]]\n",
            "kate.yaml, line 7: it is nested too deeply|line 7: 'tags' must be a text, not a list",
        ),
        (GOOD + f"tags: [{'a, ' * 200}]\n", "kate.yaml, line 7: it holds more than 200 values"),
        (GOOD + "tags: [[[a]]]\n", "kate.yaml, line 7: it is nested too deeply"),
    ],
)
def test_every_mistake_is_named(file: Path, text: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as refused:
        _read(file, text)
    assert refused.value.sentence.startswith("kate.yaml")
    assert "\n" not in refused.value.sentence and len(refused.value.sentence) < 400


@pytest.mark.parametrize(
    ("key", "most"), [("title", 80), ("pitch", 160), ("prompt", 20_000), ("author", 80), ("licence", 60)]
)
def test_a_text_may_be_so_long_and_no_longer(key: str, most: int) -> None:
    values = {**yaml.safe_load(GOOD), key: "x" * most}
    assert getattr(persona_from_mapping(values), key) == "x" * most
    with pytest.raises(FieldProblem, match=f"^'{key}' has {most + 1:,} characters; at most {most:,} can stand there"):
        persona_from_mapping({**values, key: "x" * (most + 1)})


def test_lists_are_bounded_too() -> None:
    values = yaml.safe_load(GOOD)
    assert persona_from_mapping({**values, "tags": [f"{n:024}" for n in range(8)], "ask": ["x" * 200, "b", "c"]})
    for wrong, sentence in (
        ({"tags": [str(n) for n in range(9)]}, "'tags' holds 9 texts; at most 8"),
        ({"tags": ["x" * 25]}, "'tags' has 25 characters; at most 24"),
        ({"ask": ["x" * 201, "b", "c"]}, "'ask' has 201 characters; at most 200"),
        ({"ask": ["b"] * 2000}, "'ask' holds 2000 texts"),
    ):
        with pytest.raises(FieldProblem, match=sentence):
            persona_from_mapping({**values, **wrong})


BOMBS = {
    "many laughs": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "deep lists": "tags: " + "[" * 30_000,
    "deep mappings": "tags: " + "{a: " * 15_000,
    "deep dashes": "- " * 30_000,
    "deep questions": "? " * 30_000,
    "many values": "tags: [" + "x, " * 20_000 + "]",
    "many keys": "".join(f"k{n}: x\n" for n in range(6_000)),
    "one long word": "title: " + "x" * 60_000,
    "many lines": "prompt: |\n" + " x\n" * 20_000,
    "many escapes": 'prompt: "' + "\\x41" * 15_000 + '"',
    "a huge number": "order: " + "9" * 60_000,
    "base sixty": "order: " + "59:" * 20_000 + "59",
    "hexadecimal": "order: 0x" + "f" * 60_000,
    "tabs": "a:" + "\t" * 60_000,
    "too large": "#" * 65_537,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_quickly(name: str) -> None:
    began = time.thread_time()
    with pytest.raises(InvalidInput, match=r"^bomb.yaml"):
        parse_persona(BOMBS[name], "bomb.yaml")
    assert time.thread_time() - began < 0.3


def test_files_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    file.write_bytes(b"id: \xff\xfe")
    for path in (file, tmp_path / "nowhere.yaml", tmp_path):
        with pytest.raises(InvalidInput, match=f"{path.name} is not readable YAML"):
            read_persona(path)
    file.write_bytes(b"#" * 300_000)
    with pytest.raises(InvalidInput, match=r"kate\.yaml is larger than 256 KiB"):
        read_persona(file)
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_persona(file).id == "kate", "a byte order mark, as some editors write one"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("bike.yaml", "bike.yaml"),
        ("C:\\me\\bike.yaml", "bike.yaml"),
        ("../../etc/passwd", "passwd"),
        ("", "persona.yaml"),
        ("\x00\n\u202e", "persona.yaml"),
        ("a" * 500, "a" * 60),
        ("\ud800.yaml", ".yaml"),
    ],
)
def test_a_file_s_name_is_shown_and_nothing_else(name: str, shown: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_persona("nothing", name)
    assert refused.value.sentence.startswith(f"{shown} must hold")


def test_the_order_is_the_field_s_and_ids_are_unique(tmp_path: Path) -> None:
    for name, order in (("a", 3), ("b", 1), ("c", 1)):
        (tmp_path / f"{name}.yaml").write_text(GOOD.replace("id: kate", f"id: {name}") + f"order: {order}\n")
    (tmp_path / "notes.txt").write_text("not a persona")
    assert [persona.id for persona in load_personas(tmp_path)] == ["b", "c", "a"]
    (tmp_path / "z.yaml").write_text(GOOD.replace("id: kate", "id: b"))
    with pytest.raises(InvalidInput, match=r"^z.yaml has the id 'b', which b.yaml has already"):
        load_personas(tmp_path)


def test_white_space_around_a_text_goes_and_a_prompt_keeps_its_lines() -> None:
    persona = persona_from_mapping({**yaml.safe_load(GOOD), "title": "  Kate ", "prompt": " One.\r\nTwo.\n"})
    assert (persona.title, persona.prompt) == ("Kate", "One.\nTwo.")


LETTERS = st.characters(exclude_categories=("Cs",))
LINE = st.text(LETTERS, min_size=1, max_size=30)
WORDS = st.lists(
    st.sampled_from(["a", "Mira", "sells", "it:", "#1", "- x", "'", '"', "é", "😀", "> ", "|"]), max_size=60
)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", fullmatch=True)
SAMPLINGS = st.fixed_dictionaries(
    {}, optional={"text_temperature": st.floats(0, 2), "audio_top_k": st.integers(0, 3000), "text_top_k": st.just(0)}
)


@settings(max_examples=200, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "id": NAMES,
            "title": LINE,
            "pitch": LINE,
            "prompt": WORDS.map(" ".join) | st.text(LETTERS, max_size=200),
            "voice": NAMES,
            "ask": st.lists(LINE, min_size=3, max_size=3),
        },
        optional={
            "tags": st.lists(LINE, max_size=3),
            "author": LINE,
            "licence": LINE,
            "order": st.integers(0, 9999),
            "sampling": SAMPLINGS,
        },
    )
)
@example({**yaml.safe_load(GOOD), "prompt": "a " * 80 + "- b: 'c' #d"})
@example({**yaml.safe_load(GOOD), "prompt": "a\n\n  b\n" + "c " * 80 + "\n d"})
def test_a_persona_written_as_yaml_reads_back_the_same(values: dict[str, object]) -> None:
    try:
        persona = persona_from_mapping(values)
    except FieldProblem:
        return  # a letter that nobody can read, a text that strips to nothing, two questions alike
    text = persona_text(persona)
    assert parse_persona(text, "mine.yaml") == persona
    assert persona_from_mapping({**values, "ask": list(persona.ask)}) == persona


def test_yaml_is_written_as_one_would_by_hand() -> None:
    text = persona_text(read_persona(ROOT / "personas" / "astronaut.yaml"))
    assert text.splitlines()[:2] == ["id: astronaut", "title: The astronaut with a problem"]
    assert "prompt: >-\n  You enjoy having" in text and "licence: MIT" in text and "sampling" not in text
    assert max(map(len, text.splitlines())) < 121


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


FIELD_NAMES = st.sampled_from(
    ["id", "title", "prompt", "voice", "ask", "tags", "order", "sampling", "licence", "other"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(FIELD_NAMES, ANYTHING, max_size=3))
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
