"""A ruler for prompts, taken from the stepper that runs.

In: a stepper. Out: `Ruler`, None where the stepper has no tokenizer. Must not know: routes, what the coach says.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from personaplex_app.coach import Ruler
from personaplex_app.controls import Choices, SamplingSettings

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

    def open(self, choices: Choices) -> Any: ...


def ruler_of(stepper: object) -> Ruler | None:
    """The stepper's; what a voice takes is found out once, by an opening without a prompt."""
    if not isinstance(stepper, _Measured):
        return None

    @lru_cache(KNOWN_VOICES)
    def forced_positions(voice: str) -> int:
        return int(stepper.open(Choices("", voice, SamplingSettings(), 0)).positions)

    return Ruler(stepper.tokenizer.encode_prompt, forced_positions, stepper.context)
