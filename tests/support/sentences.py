"""The texts that a visitor may read, found in our own sources: what the locale tables must hold, and nothing more.

Scripts say their texts by `t("...")`, HTML parts by `data-t` and its like; Python's sentences are found by its syntax:
every text and f-string with words in it, its values named after what stands in the braces.
In: sources. Out: English keys. What is no sentence for a visitor, a test names.
"""

from __future__ import annotations

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import personaplex_app
from personaplex_app.web.call_view import line_words
from personaplex_app.web.languages import PLACE

PACKAGE = Path(personaplex_app.__file__).parent
STATIC = PACKAGE / "web" / "static"
SAID = re.compile(r"""(?<![\w.])t\(\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
ATTRIBUTES = {"data-t-label": "aria-label", "data-t-title": "title", "data-t-placeholder": "placeholder"}
LOGS = {"debug", "info", "warning", "error", "critical", "exception"}
WORDS = re.compile(r"[A-Za-z]{2,}[^\n]* |[a-z]{3,}[.:!]$")

# Sentences as the server tells them: with values, within one another, several at once.
TOLD = [
    "Over the socket. Talking. Speak whenever you like.",
    line_words(2, 300.0),
    line_words(1, 20.0),
    "The talk has reached its 30 minutes.",
    "The talk has reached its 60 seconds.",
    'The persona keeps saying "no. no". Its sampling is steadied for 3 s.',
    "From frame 0 (0.0 s): audio temperature 0.8, text temperature 0.7, audio top-k off, text top-k off, "
    "repetition penalty 1. Voice NATF0, seed 7.",
    "The clip is too short: it has 2.0 s, and a voice needs 3 s.",
    "The clip is too short: it has 2.0 s of 9.0 s without the silence at its ends, and a voice needs 3 s.",
    "**Echo.** No model runs here: you hear yourself, to check the line.\n\nA frame takes 33 ms of 80 here.",
    "No TURN relay right now: Cloudflare did not answer within 5 s. Where a direct connection (WebRTC) fails, the talk "
    "goes on by itself over this page's own socket.",
    "The server is about to stop: talks that run end now, new ones cannot begin. Try again in a few minutes.",
    "NATF0 · natural, female",
    "Fetching a.bin (1 of 5)",
    "The connection was lost.\nReady: 1 of 1 lines free.",
]


def script_keys(source: str) -> set[str]:
    """What a script says."""
    return {str(ast.literal_eval(found)) for found in SAID.findall(source)}


def html_keys(source: str) -> set[str]:
    """What an HTML part says."""
    reader = _Marked()
    reader.feed(source)
    return reader.keys


class _Marked(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.keys: set[str] = set()
        self._open: str | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.keys |= {plain(told[text] or "") for mark, text in ATTRIBUTES.items() if mark in told}
        if "data-t" in told:
            self._open, self._text = tag, ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self.keys.add(plain(self._text))
            self._open = None


def plain(text: str) -> str:
    """As `i18n.js` reads a text of the page."""
    return " ".join(text.split())


def module_keys(source: str) -> set[str]:
    """The sentences of a Python module."""
    reader = _Sentences()
    reader.visit(ast.parse(source))
    return reader.keys


class _Sentences(ast.NodeVisitor):
    """Docstrings, logs and assertions are for nobody who visits."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def visit_Call(self, node: ast.Call) -> None:
        of = node.func
        if not (isinstance(of, ast.Attribute) and of.attr in LOGS and isinstance(of.value, ast.Name)):
            self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        text, used = "", dict[str, int]()
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
            elif isinstance(part, ast.FormattedValue):
                name = _name(part.value)
                used[name] = used.get(name, 0) + 1
                text += "{" + (name if used[name] == 1 else f"{name}_{used[name]}") + "}"
                self.visit(part.value)
        self._add(text)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add(node.value)

    def _add(self, text: str) -> None:
        if WORDS.search(PLACE.sub("", text)):
            self.keys.add(text.strip())


def _name(node: ast.expr) -> str:
    """What a value is called: the variable, the attribute, or what a function is called with."""
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name.lower().strip("_")
        case ast.Call(function, arguments):
            return _first([*arguments, function])
        case ast.Subscript(inner) | ast.UnaryOp(operand=inner) | ast.Compare(left=inner):
            return _name(inner)
        case ast.BinOp(left, _, right):
            return _first([left, right])
        case ast.BoolOp(values=values):
            return _name(values[0])
        case ast.IfExp(test, body, _):
            return _first([body, test])
    return "value"


def _first(nodes: list[ast.expr]) -> str:
    return next((name for name in map(_name, nodes) if name != "value"), "value")
