"""The talk's protocol: what a client may say on the socket, checked; what the server says, as JSON. Pure.

In: a text message. Out: one of the values below, or InvalidInput (code `bad_message`) in words. docs/protocol.md tells
the whole. Must not know: sockets, the engine.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from personaplex_app.errors import InvalidInput

VERSION = 1
MOST_TEXT_CHARACTERS = 1 << 20
MOST_SOUND_BYTES = 19_200
MOST_SECRET_CHARACTERS = 64
MOST_SDP_CHARACTERS = 100_000


@dataclass(frozen=True)
class Ask:
    """A talk with these choices, please; a key that is not there has its default."""

    choices: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """It is my turn, and I am here."""


@dataclass(frozen=True)
class Sound:
    """Carry the sound on this socket."""


@dataclass(frozen=True)
class Set:
    """Other choices during the talk."""

    choices: dict[str, Any]


@dataclass(frozen=True)
class StartOver:
    """Begin this talk anew with these choices; a key that is not there has its default."""

    choices: dict[str, Any]


@dataclass(frozen=True)
class Resume:
    """Go on with the talk that was cut off."""

    grant: str


@dataclass(frozen=True)
class Record:
    """Keep this talk's sound and words from now on, or no more of them."""

    on: bool


@dataclass(frozen=True)
class Stop:
    """The talk is over."""


@dataclass(frozen=True)
class Ping:
    """Answer with the same number; `heard` tells how many pieces of sound have come since the talk was admitted."""

    at: float
    heard: int | None = None


@dataclass(frozen=True)
class Check:
    """Try the way: without an offer the ICE servers are asked for, with one our answer."""

    sdp: str | None


Message: TypeAlias = Ask | Answer | Sound | Set | StartOver | Resume | Record | Stop | Ping | Check
_KNOWN = ("ask", "answer", "sound", "set", "start_over", "resume", "record", "stop", "ping", "check")


def parse(text: str) -> Message:
    """A client's text message; raises InvalidInput for anything else."""
    if len(text) > MOST_TEXT_CHARACTERS:
        raise _bad(f"A message may have {MOST_TEXT_CHARACTERS} characters at most.")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("A text message must be JSON.") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str) or fields["type"] not in _KNOWN:
        raise _bad(f"A message is a JSON object whose type is one of {', '.join(_KNOWN)}.")
    return _read(fields["type"], fields)


def _read(kind: str, fields: dict[str, Any]) -> Message:
    match kind:
        case "ask":
            return Ask(_choices(fields))
        case "set":
            return Set(_choices(fields))
        case "start_over":
            return StartOver(_choices(fields))
        case "resume":
            return Resume(_secret(fields.get("grant")))
        case "record":
            return Record(_flag(fields.get("on")))
        case "ping":
            return Ping(_number(fields.get("at", 0)), _count(fields.get("heard")))
        case "check":
            return Check(_sdp(fields.get("sdp")))
        case "answer":
            return Answer()
        case "sound":
            return Sound()
    return Stop()


def _choices(fields: dict[str, Any]) -> dict[str, Any]:
    choices = fields.get("choices", {})
    if not isinstance(choices, dict):
        raise _bad("The choices must be a JSON object.")
    return choices


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _bad("A record's `on` must be true or false.")
    return value


def _secret(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MOST_SECRET_CHARACTERS:
        raise _bad("The grant must be the text that the talk gave.")
    return value


def _sdp(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and len(value) <= MOST_SDP_CHARACTERS):
        return value
    raise _bad("A check's `sdp` must be the text of an offer.")


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15 or not math.isfinite(value):
        raise _bad("A ping's `at` must be a number.")
    return value


def _count(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53):
        return value
    raise _bad("A ping's `heard` must be a whole number.")


def _bad(sentence: str) -> InvalidInput:
    return InvalidInput(sentence, code="bad_message")


def say(kind: str, **fields: Any) -> str:
    """A server's message."""
    return json.dumps({"type": kind, **fields}, separators=(",", ":"), allow_nan=False)
