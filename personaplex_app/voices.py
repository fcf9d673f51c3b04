"""Voices by name: which names can exist, and what an official name says about its voice.

In: names as people and files give them. Out: checked names, descriptions.
Must not know: how a voice is read (`model/voice_file.py`), torch.
"""

from __future__ import annotations

import re

from personaplex_app.errors import InvalidInput

NO_VOICE = "none"
OWN_PREFIX = "own-"  # of voices that visitors brought; no other voice is found under such a name
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", re.ASCII)
_OFFICIAL = re.compile(r"(NAT|VAR)([FM])(\d)")


def is_voice_name(name: str) -> bool:
    """Letters, digits, `_` and `-` only."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_voice_name(name: str) -> str:
    """The name itself, or InvalidInput: letters, digits, `_` and `-` only, so that it can never be a path."""
    if not is_voice_name(name):
        raise InvalidInput(
            f"{str(name)[:40]!r} is no voice name: letters, digits, '_' and '-' only.", code="unknown_voice"
        )
    return name


def voice_kind(name: str) -> tuple[str, str]:
    """Style and gender by an official name, `natural` or `varied` and `female` or `male`; else `own` and nothing."""
    match = _OFFICIAL.fullmatch(name)
    if match is None:
        return "own", ""
    return "natural" if match[1] == "NAT" else "varied", "female" if match[2] == "F" else "male"


def is_own_voice(name: str) -> bool:
    """Whether a name can only be a visitor's own voice."""
    return name.startswith(OWN_PREFIX)


def describe_voice(name: str) -> str:
    """What a person chooses by, such as `NATF0 · natural, female`; other names stand for themselves."""
    style, gender = voice_kind(name)
    if not gender:
        return "no voice prompt" if name == NO_VOICE else name
    return f"{name} · {style}, {gender}"
