"""What the page's boxes and sliders hold becomes choices, or a sentence that says what cannot be used. Pure.

In: values as gradio hands them over. Out: `Choices`. Must not know: gradio, the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Form:
    """The page's values by name, unchecked."""

    values: dict[str, Any]

    @classmethod
    def from_args(cls, args: Sequence[Any]) -> Form:
        """From what FastRTC collects: a marker, with some variants the connection's id, then our fields in order."""
        if len(args) < len(FIELDS):
            raise InvalidInput("The page sent no settings. Reload it and try again.")
        return cls(dict(zip(FIELDS, args[-len(FIELDS) :], strict=True)))

    def sampling(self) -> SamplingSettings:
        """Checked sampling; raises InvalidInput."""
        return SamplingSettings(
            audio_temperature=_number("audio temperature", self.values["audio_temperature"]),
            text_temperature=_number("text temperature", self.values["text_temperature"]),
            audio_top_k=_whole("audio top-k", self.values["audio_top_k"]),
            text_top_k=_whole("text top-k", self.values["text_top_k"]),
            repetition_penalty=_number("repetition penalty", self.values["repetition_penalty"]),
        )

    def differs(self, choices: Choices) -> bool:
        """Whether prompt or voice are others than a call began with."""
        return (self.values["prompt"] or "", self.values["voice"] or NO_VOICE) != (choices.prompt, choices.voice)

    def choices(self) -> Choices:
        """All of it, checked; raises InvalidInput."""
        prompt = self.values["prompt"]
        if prompt is not None and not isinstance(prompt, str):
            raise InvalidInput("The prompt must be a text.")
        voice = check_voice_name(self.values["voice"] or NO_VOICE)
        return Choices(prompt or "", voice, self.sampling(), parse_seed(self.values["seed"]))


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
