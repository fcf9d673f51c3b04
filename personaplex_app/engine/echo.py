"""The echo stepper: gives back what it heard, one frame after it began to be said. For tests and for checking a line.

Must not know: models, the web.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.voices import NO_VOICE, check_voice_name


@dataclass(frozen=True)
class EchoStep:
    """What was heard, unchanged; no words."""

    pcm: Pcm
    text_token: int = 3
    healthy: bool = True


class EchoStepper:
    """Meets `engine.ports.Stepper` without a model.

    Args:
        slots: rows. step_seconds, prime_seconds: how long a step and a prompt pretend to take.
    """

    def __init__(self, slots: int = 1, step_seconds: float = 0.0, prime_seconds: float = 0.0) -> None:
        self.slots = slots
        self.voice_names: list[str] = []
        self.step_seconds = step_seconds
        self.prime_seconds = prime_seconds
        self.sampling: dict[int, SamplingSettings] = {}

    def open(self, choices: Choices) -> Choices:
        """Checks the voice's name only."""
        if check_voice_name(choices.voice) != NO_VOICE:
            raise InvalidInput("The echo has no voices of its own.", code="unknown_voice")
        return choices

    def prime(self, slot: int, opening: Choices) -> None:
        """Takes as long as it was told to."""
        time.sleep(self.prime_seconds)
        self.sampling[slot] = opening.sampling

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        """Gives every slot its own frame back."""
        if self.step_seconds:
            time.sleep(self.step_seconds)
        return {slot: EchoStep(pcm) for slot, pcm in heard.items()}

    def set_sampling(self, slot: int, sampling: SamplingSettings) -> None:
        """Keeps it, to be looked at."""
        self.sampling[slot] = sampling

    def text(self, token: int) -> bytes:
        """An echo has no words."""
        return b""

    def release(self, slot: int) -> None:
        """Forgets the slot."""
        self.sampling.pop(slot, None)
