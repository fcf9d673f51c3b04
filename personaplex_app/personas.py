"""Personas: one strict YAML file each, checked at start.

In: a directory of `*.yaml`. Out: frozen `Persona` values in the order of their `order` field, or InvalidInput that
names file and line. Must not know: the model, the web.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from personaplex_app.controls import SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.voices import check_voice_name

QUESTIONS = 3
_TEXTS = ("id", "title", "pitch", "prompt", "voice", "author", "licence")
_REQUIRED = ("id", "title", "pitch", "prompt", "voice", "ask")
_KNOWN = (*_TEXTS, "ask", "tags", "sampling", "order")


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


def load_personas(directory: Path) -> list[Persona]:
    """Reads every `*.yaml` of a directory; raises InvalidInput for a file that is not exactly a persona."""
    personas = [read_persona(path) for path in sorted(directory.glob("*.yaml"))]
    seen: dict[str, Persona] = {}
    for persona in personas:
        if persona.id in seen:
            raise InvalidInput(f"Two personas in {directory} have the id {persona.id!r}.")
        seen[persona.id] = persona
    return sorted(personas, key=lambda persona: (persona.order, persona.id))


def read_persona(path: Path) -> Persona:
    """One file; InvalidInput names the file, the line and what can stand there."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise InvalidInput(f"{path.name} is not readable YAML: {' '.join(str(error).split())}") from None
    if not isinstance(root, yaml.MappingNode):
        raise InvalidInput(f"{path.name} must hold a mapping with the keys {', '.join(_KNOWN)}.")
    values = _values(root, path)
    missing = [key for key in _REQUIRED if key not in values]
    if missing:
        raise InvalidInput(f"{path.name} lacks {', '.join(missing)}.")
    try:
        persona = Persona(**values)
        check_voice_name(persona.id)
        check_voice_name(persona.voice)
        persona.sampling_over(SamplingSettings())
    except InvalidInput as error:
        raise InvalidInput(f"{path.name}: {error.sentence}") from None
    return persona


def _values(root: yaml.MappingNode, path: Path) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key_node, value_node in root.value:
        line, key = key_node.start_mark.line + 1, str(key_node.value)
        if key not in _KNOWN:
            raise InvalidInput(f"{path.name}, line {line}: unknown key {key!r}; known are {', '.join(_KNOWN)}.")
        if key in values:
            raise InvalidInput(f"{path.name}, line {line}: {key!r} stands there twice.")
        where = f"{path.name}, line {line}: {key!r}"
        values[key] = _checked(key, _constructed(value_node, where), where)
    return values


def _constructed(node: yaml.Node, where: str) -> Any:
    try:
        return yaml.SafeLoader("").construct_object(node, deep=True)
    except Exception:  # YAML's own tags raise whatever an impossible date, number or alias led to
        raise InvalidInput(f"{where} holds something that is no plain YAML.") from None


def _checked(key: str, value: Any, where: str) -> Any:
    if key in _TEXTS and not (isinstance(value, str) and (value.strip() or key == "prompt")):
        raise InvalidInput(f"{where} must be a text.")
    if key in ("ask", "tags"):
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise InvalidInput(f"{where} must be a list of texts.")
        if key == "ask" and len(value) != QUESTIONS:
            raise InvalidInput(f"{where} must hold {QUESTIONS} things to ask.")
        return tuple(value)
    if key == "order" and (isinstance(value, bool) or not isinstance(value, int)):
        raise InvalidInput(f"{where} must be a whole number.")
    if key == "sampling" and not isinstance(value, dict):
        raise InvalidInput(f"{where} must be a mapping.")
    return value.strip() if isinstance(value, str) else value
