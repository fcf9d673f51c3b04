"""What the page's boxes and sliders hold becomes choices, or a sentence that says what cannot be used. Pure.

In: values by name, as JSON brings them. Out: `Choices`. Must not know: gradio, the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from personaplex_app.controls import Choices, SamplingSettings, parse_seed
from personaplex_app.errors import InvalidInput
from personaplex_app.voices import NO_VOICE, check_voice_name

FIELDS = (
    "prompt",
    "voice",
    "audio_temperature",
    "text_temperature",
    "audio_top_k",
    "text_top_k",
    "repetition_penalty",
    "seed",
)
LOOP_GUARD = "loop_guard"
CHOICES = (*FIELDS, LOOP_GUARD)


def read_choices(values: Mapping[str, Any], sampling: SamplingSettings) -> Choices:
    """Checked choices; what is not named is empty, `none`, a fresh seed, a guard that may act, or as in `sampling`.

    Raises InvalidInput.
    """
    for name in values:
        if name not in CHOICES:
            raise InvalidInput(f"Unknown choice {name[:40]!r}; known are {', '.join(CHOICES)}.")
    prompt = values.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise InvalidInput("The prompt must be a text.")
    voice = check_voice_name(values.get("voice") or NO_VOICE)
    guard = values.get(LOOP_GUARD, True)
    if not isinstance(guard, bool):
        raise InvalidInput(f"The loop guard must be true or false, not {str(guard)[:40]!r}.")
    return Choices(prompt or "", voice, read_sampling(values, sampling), parse_seed(values.get("seed")), guard)


def read_sampling(values: Mapping[str, Any], base: SamplingSettings) -> SamplingSettings:
    """Checked sampling; raises InvalidInput."""
    read: dict[str, Callable[[str, Any], Any]] = {
        "audio_temperature": _number,
        "text_temperature": _number,
        "audio_top_k": _whole,
        "text_top_k": _whole,
        "repetition_penalty": _number,
    }
    return base.changed(**{name: check(_words(name), values[name]) for name, check in read.items() if name in values})


def _words(name: str) -> str:
    return name.replace("_", " ").replace("top k", "top-k")


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"The {name} must be a number, not {str(value)[:40]!r}.")
    return value


def _whole(name: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"The {name} must be a whole number, not {str(value)[:40]!r}.")
    return value


def describe_sampling(sampling: SamplingSettings) -> str:
    """One line with every value that holds."""
    return (
        f"audio temperature {sampling.audio_temperature:g}, text temperature {sampling.text_temperature:g}, "
        f"audio top-k {sampling.audio_top_k or 'off'}, text top-k {sampling.text_top_k or 'off'}, "
        f"repetition penalty {sampling.repetition_penalty:g}"
    )
