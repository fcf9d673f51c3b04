"""Personas: one strict YAML file each, checked at start, or the same fields as a visitor sends them.

In: a directory of `*.yaml`, a text, or plain values. Out: frozen `Persona` values, those of a directory in the order
of their `order` field, or InvalidInput that names file and line. Must not know: the model, the web.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from personaplex_app.controls import SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.persona_fields import KNOWN, FieldProblem, checked_fields
from personaplex_app.plain_yaml import MOST_CHARACTERS, Entry, read_mapping

NAMELESS = "persona.yaml"
MOST_NAME_CHARACTERS = 60
MOST_FILE_BYTES = 4 * MOST_CHARACTERS
LINE_CHARACTERS = 110
ALWAYS_TOLD = ("prompt", "licence")


@dataclass(frozen=True)
class Persona:
    """Who the model is to be.

    Attributes:
        pitch: one line that makes a visitor curious. ask: three things to say to it.
        voice: name of one of the checkpoint's voices. sampling: only what differs from the checkpoint's own.
    """

    id: str
    title: str
    pitch: str
    prompt: str
    voice: str
    ask: tuple[str, ...]
    tags: tuple[str, ...] = ()
    author: str = ""
    licence: str = "MIT"
    order: int = 100
    sampling: dict[str, Any] = field(default_factory=dict)

    def sampling_over(self, base: SamplingSettings) -> SamplingSettings:
        """The checkpoint's sampling with this persona's changes."""
        return SamplingSettings.from_mapping(self.sampling, base)


def persona_from_mapping(values: Mapping[str, Any]) -> Persona:
    """A persona of plain values, as JSON brings them; raises FieldProblem, whose sentence says what can stand there."""
    return Persona(**checked_fields(values))


def parse_persona(text: str, name: str) -> Persona:
    """A persona of a file's text; raises InvalidInput that names the file, the line and what can stand there.

    Args:
        name: the file's, as its owner calls it; shown only.
    """
    shown = shown_name(name)
    entries = read_mapping(text, shown)
    try:
        return persona_from_mapping({key: entry.value for key, entry in entries.items()})
    except FieldProblem as problem:
        raise InvalidInput(f"{shown}{_line_of(problem, entries)}: {problem.sentence}") from None


def _line_of(problem: FieldProblem, entries: dict[str, Entry]) -> str:
    if problem.key is None:
        return ""
    entry = entries[problem.key]
    line = entry.line if problem.part is None else entry.lines.get(problem.part, entry.line)
    return f", line {line}"


def shown_name(name: str) -> str:
    """A file's name as it can stand in a sentence."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    plain = "".join(letter for letter in last if letter.isprintable())[:MOST_NAME_CHARACTERS].strip()
    return plain or NAMELESS


class _Dumper(yaml.SafeDumper):
    """Writes a long text of one line as a folded block, as one would by hand."""


def _folded(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    foldable = len(text) > LINE_CHARACTERS and text == " ".join(text.split()) and text.isprintable()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=">" if foldable else None)


_Dumper.add_representer(str, _folded)


def persona_text(persona: Persona) -> str:
    """The persona as YAML, which `parse_persona` reads back as the same persona; defaults are left out."""
    usual = Persona("", "", "", "", "", ())
    values = {key: getattr(persona, key) for key in KNOWN}
    told = {key: value for key, value in values.items() if key in ALWAYS_TOLD or value != getattr(usual, key)}
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in told.items()}
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=LINE_CHARACTERS)


def read_persona(path: Path) -> Persona:
    """One file; InvalidInput names the file, the line and what can stand there."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path.name} is not readable YAML: {error}.") from None
    if len(data) > MOST_FILE_BYTES:
        raise InvalidInput(f"{path.name} is larger than {MOST_FILE_BYTES >> 10} KiB, which no persona is.")
    return parse_persona(text, path.name)


def load_personas(directory: Path) -> list[Persona]:
    """Reads every `*.yaml` of a directory; raises InvalidInput for a file that is not exactly a persona."""
    seen: dict[str, tuple[Persona, Path]] = {}
    for path in sorted(directory.glob("*.yaml")):
        persona = read_persona(path)
        if persona.id in seen:
            raise InvalidInput(f"{path.name} has the id {persona.id!r}, which {seen[persona.id][1].name} has already.")
        seen[persona.id] = persona, path
    return sorted((persona for persona, _ in seen.values()), key=lambda persona: (persona.order, persona.id))
