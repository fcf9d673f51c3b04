"""What a caller may set on a conversation: sampling, penalty, seed; checked here and nowhere else.

In: numbers or text as people and sliders give them. Out: frozen values, or `InvalidInput` with a sentence.
Must not know: torch, how tokens are drawn, the web.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, fields, replace
from typing import Any

from personaplex_app.errors import InvalidInput

MAX_TEMPERATURE = 2.0
MAX_PENALTY = 2.0
MAX_TOP_K = 1_000_000_000
MAX_SEED = 2**63 - 1
PENALTY_WINDOW_TOKENS = 64


@dataclass(frozen=True)
class SamplingSettings:
    """How the next tokens are drawn; temperature 0 is greedy, top-k 0 is no limit, penalty 1 is off.

    Defaults are the reference implementation's. Raises InvalidInput when a value cannot be used.
    """

    audio_temperature: float = 0.8
    text_temperature: float = 0.7
    audio_top_k: int = 250
    text_top_k: int = 25
    repetition_penalty: float = 1.0
    penalty_window_tokens: int = PENALTY_WINDOW_TOKENS

    def __post_init__(self) -> None:
        for name in ("audio_temperature", "text_temperature"):
            _check_range(name, getattr(self, name), 0.0, MAX_TEMPERATURE)
        for name in ("audio_top_k", "text_top_k"):
            _check_whole(name, getattr(self, name), 0, MAX_TOP_K)
        _check_range("repetition_penalty", self.repetition_penalty, 1.0, MAX_PENALTY)
        _check_whole("penalty_window_tokens", self.penalty_window_tokens, 1, PENALTY_WINDOW_TOKENS)

    def greedy(self) -> SamplingSettings:
        """The same settings with temperature 0 and penalty 1: one answer, whatever the seed."""
        return replace(self, audio_temperature=0.0, text_temperature=0.0, repetition_penalty=1.0)

    def changed(self, **changes: Any) -> SamplingSettings:
        """A copy with the values that are not None put in place; raises InvalidInput as the constructor does."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    @classmethod
    def from_mapping(cls, values: dict[str, Any], base: SamplingSettings | None = None) -> SamplingSettings:
        """Reads a mapping such as a `sampling` block of YAML or JSON; unknown keys are named and refused."""
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise InvalidInput(f"Unknown sampling setting {key!r}; known are {', '.join(known)}.")
        return replace(base or cls(), **values)


def _check_range(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise InvalidInput(f"{_words(name)} must be a number from {low:g} to {high:g}, not {repr(value)[:40]}.")
    if not low <= value <= high:
        raise InvalidInput(f"{_words(name)} must be from {low:g} to {high:g}, not {value:g}.")


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond what a float can hold
        return False


def _check_whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{_words(name)} must be a whole number, not {value!r}.")
    if not low <= value <= high:
        raise InvalidInput(f"{_words(name)} must be from {low} to {high}, not {value}.")


def _words(name: str) -> str:
    return name.replace("_", " ").replace("top k", "top-k").capitalize()


def parse_seed(value: str | int | float | None) -> int:
    """A seed as people type it; nothing, an empty text or -1 draw a fresh one.

    Returns 0 to 2**63 - 1. Raises InvalidInput for anything that is not such a whole number.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return secrets.randbits(31)
    try:
        if isinstance(value, float) and not value.is_integer():
            raise ValueError
        seed = int(value)
    except (TypeError, ValueError, OverflowError):
        shown = repr(value)[:40]
        raise InvalidInput(f"The seed must be a whole number from 0 to {MAX_SEED}, or empty, not {shown}.") from None
    if seed == -1:
        return secrets.randbits(31)
    if not 0 <= seed <= MAX_SEED:
        raise InvalidInput(f"The seed must be from 0 to {MAX_SEED}, or empty for a fresh one.")
    return seed


@dataclass(frozen=True)
class Choices:
    """All that one conversation chooses; it belongs to its session and takes effect once that holds a slot.

    Attributes:
        prompt: the persona's text, empty for none. voice: a name of the checkpoint's voices, or `none`.
        loop_guard: whether the guard may change the sampling where the talk goes round in circles.
    """

    prompt: str
    voice: str
    sampling: SamplingSettings
    seed: int
    loop_guard: bool = False
