"""Plain YAML, read strictly: one mapping of texts, numbers, lists and small mappings, each with its line.

Aliases, anchors, tags, deep nesting, long numbers and big documents are refused before anything is built from them.
In: a text. Out: `Entry` values by key, or InvalidInput that names file and line. Must not know: what the keys mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from personaplex_app.errors import InvalidInput

MOST_CHARACTERS = 65_536
MOST_NODES = 200
MOST_DEPTH = 3  # the mapping, a list in it, an item of that
MOST_NUMBER_CHARACTERS = 40  # of whatever YAML would not read as text
_TEXT_TAG = "tag:yaml.org,2002:str"


@dataclass(frozen=True)
class Entry:
    """What stands behind a key.

    Attributes:
        line: the key's. lines: those of the value's own keys, or of its items by number.
    """

    value: Any
    line: int
    lines: dict[str | int, int] = field(default_factory=dict)


class _Refused(Exception):
    """What is YAML, but more than plain."""

    def __init__(self, node: Any, sentence: str) -> None:
        super().__init__(sentence)
        self.line = _line(node)


class _PlainLoader(yaml.SafeLoader):
    """Refuses while it reads, so that what costs most is never built."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """yaml's, for every node there is."""
        event: Any = super().peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _Refused(event, "anchors and aliases ('&', '*') are not read here")
        if event.tag is not None:
            raise _Refused(event, "tags ('!') are not read here")
        self._nodes += 1
        self._depth += 1
        if self._nodes > MOST_NODES:
            raise _Refused(event, f"it holds more than {MOST_NODES} values")
        if self._depth > MOST_DEPTH:
            raise _Refused(event, "it is nested too deeply")
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def plain(self, node: yaml.Node) -> Any:
        """A node's value; _Refused where it has none."""
        if isinstance(node, yaml.MappingNode):
            return {key.value: self.plain(value) for key, value in _pairs(node)}
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item) for item in node.value]
        if node.tag == _TEXT_TAG:
            return node.value
        if len(node.value) > MOST_NUMBER_CHARACTERS:
            raise _Refused(node, f"{node.value[:20]!r}... is too long for a number")
        try:
            return self.construct_object(node)
        except Exception:  # yaml raises whatever an impossible date or number led to
            raise _Refused(node, f"{node.value!r} is no plain YAML") from None


def read_mapping(text: str, name: str) -> dict[str, Entry]:
    """The document's entries in their order.

    Args:
        text: at most 65,536 characters. name: the file's, for the sentence that says what is wrong.
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(f"{name} has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read.")
    try:
        loader = _PlainLoader(text)
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise InvalidInput(f"{name} must hold a mapping: lines such as 'title: My persona'.")
        return {key.value: _entry(loader, key, value) for key, value in _pairs(root)}
    except _Refused as refused:
        raise InvalidInput(f"{name}, line {refused.line}: {refused}.") from None
    except yaml.YAMLError as error:
        line, problem = _where(error, text)
        raise InvalidInput(f"{name}, line {line}, is not readable YAML: {problem}.") from None


def _entry(loader: _PlainLoader, key: yaml.Node, value: yaml.Node) -> Entry:
    lines: dict[str | int, int] = {}
    if isinstance(value, yaml.MappingNode):
        lines = {inner.value: _line(inner) for inner, _ in _pairs(value)}
    elif isinstance(value, yaml.SequenceNode):
        lines = {index: _line(item) for index, item in enumerate(value.value)}
    return Entry(loader.plain(value), _line(key), lines)


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
    """Keys and values; keys are words, and none stands there twice."""
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _Refused(key, "a key must be a word")
        if key.value in seen:
            raise _Refused(key, f"{key.value[:40]!r} stands there twice")
        seen.add(key.value)
    return list(node.value)


def _line(node: Any) -> int:
    """Of a node or an event."""
    return int(node.start_mark.line) + 1


def _where(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """Line and words of what yaml could not read."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return (mark.line + 1 if mark else 1), " ".join(str(error.problem or error.context).split())[:200]
    position = getattr(error, "position", 0)  # a reader's error
    return text.count("\n", 0, position) + 1, f"it holds the character {text[position : position + 1]!a}"
