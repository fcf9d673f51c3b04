"""A server's text messages read: strict about those we know, silent about those that may come later. Pure.

In: the socket's text. Out: an `Event`, or ServerFault where a known message is not what the protocol says.
Must not know: sockets, what follows from a message.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, Field, fields
from typing import Any

from personaplex_app.client import messages
from personaplex_app.client.messages import Event, Unknown
from personaplex_app.errors import ServerFault

_TYPES: dict[str, Any] = {
    "hello": messages.Hello,
    "waiting": messages.Waiting,
    "turn": messages.Turn,
    "admitted": messages.Admitted,
    "talk": messages.TalkState,
    "started_over": messages.StartedOver,
    "words": messages.Words,
    "said": messages.Said,
    "guard": messages.Guard,
    "echo": messages.Echo,
    "recording": messages.Recording,
    "warning": messages.Notice,
    "refused": messages.Refused,
    "lost": messages.Lost,
    "xray": messages.Xray,
    "ended": messages.Ended,
    "health": messages.Health,
    "pong": messages.Pong,
}
_KINDS: dict[Any, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "bool": (bool,),
    "list[Any]": (list,),
    "dict[str, Any]": (dict,),
    "dict[str, Any] | None": (dict, type(None)),
}
_MOST_SHOWN = 80


def parse_message(text: str | bytes) -> Event:
    """One text message; raises ServerFault with a sentence where it is no message of this protocol."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise _unreadable(str(text)) from None
    kind = message.get("type") if isinstance(message, dict) else None
    if not isinstance(kind, str):
        raise _unreadable(str(text))
    found = _TYPES.get(kind)
    if found is None:
        return Unknown(kind)
    event: Event = found(**{part.name: _value(kind, part, message) for part in fields(found)})
    return event


def _value(kind: str, part: Field[Any], message: dict[str, Any]) -> Any:
    value = message.get(part.name, MISSING)
    allowed = _KINDS[part.type]
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        shown = "nothing" if value is MISSING else repr(value)[:_MOST_SHOWN]
        raise ServerFault(f"The server's message {kind!r} has {shown} for {part.name!r}.", code="bad_message")
    return value


def _unreadable(text: str) -> ServerFault:
    return ServerFault(f"The server sent what is no message: {text[:_MOST_SHOWN]!r}.", code="bad_message")
