"""A ruler for prompts, taken from the stepper that runs.

In: a stepper, a visitor's own voices. Out: `Ruler`, None where the stepper has no tokenizer.
Must not know: routes, what the coach says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from personaplex_app.coach import Ruler
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.voices import NO_VOICE

KNOWN_VOICES = 64


class _Tokenizer(Protocol):
    def encode_prompt(self, text: str) -> Sequence[int]: ...


@runtime_checkable
class _Measured(Protocol):
    """A stepper that knows how long its prompts are."""

    @property
    def tokenizer(self) -> _Tokenizer: ...

    @property
    def context(self) -> int: ...

    def open(self, choices: Choices, voice: Any = None) -> Any: ...


def ruler_of(stepper: object) -> Ruler | None:
    """The stepper's; what a voice takes is found out once, by the opening of a talk without a prompt."""
    if not isinstance(stepper, _Measured):
        return None

    @lru_cache(KNOWN_VOICES)
    def forced_positions(voice: str) -> int:
        return _positions(stepper, voice)

    return Ruler(stepper.tokenizer.encode_prompt, forced_positions, stepper.context)


def with_own_voices(ruler: Ruler, stepper: object, own: Mapping[str, Any]) -> Ruler:
    """The same for a visitor with these voices of their own, learned ones by name."""
    if not own or not isinstance(stepper, _Measured):
        return ruler

    def forced_positions(voice: str) -> int:
        return _positions(stepper, NO_VOICE, own[voice]) if voice in own else ruler.forced_positions(voice)

    return replace(ruler, forced_positions=forced_positions)


def _positions(stepper: _Measured, voice: str, learned: Any = None) -> int:
    return int(stepper.open(Choices("", voice, SamplingSettings(), 0), learned).positions)
