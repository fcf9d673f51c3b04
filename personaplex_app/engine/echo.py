"""The echo stepper: gives back what it heard, one frame after it began to be said. For tests and for checking a line.

Its state is a count, from which it can be seen whether a talk went on in its own.

Must not know: models, the web.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.voices import NO_VOICE, check_voice_name


@dataclass(frozen=True)
class EchoStep:
    """What was heard, unchanged; no words. `text_token` counts the talk's steps, beginning with its seed."""

    pcm: Pcm
    text_token: int
    healthy: bool = True


@dataclass(frozen=True)
class EchoSaved:
    """A saved slot of the echo; it lies in host memory from the beginning."""

    sampling: SamplingSettings
    count: int
    bytes: int = 64

    def to_host(self) -> EchoSaved:
        return self

    def to_device(self) -> EchoSaved:
        return self


@dataclass(frozen=True)
class EchoVoice:
    """What stands for a voice where nothing speaks with one."""

    bytes: int = 64


class EchoStepper:
    """Meets `engine.ports.Stepper` without a model.

    Args:
        slots: rows. step_seconds, prime_seconds: how long a step and a prompt pretend to take.
    """

    def __init__(self, slots: int = 1, step_seconds: float = 0.0, prime_seconds: float = 0.0) -> None:
        self.slots = slots
        self.voice_names: list[str] = []
        self.voice_seconds = 0.0
        self.has_words = False
        self.window = None
        self.step_seconds = step_seconds
        self.prime_seconds = prime_seconds
        self.sampling: dict[int, SamplingSettings] = {}
        self.counts: dict[int, int] = {}

    def open(self, choices: Choices, voice: Any = None) -> Choices:
        """Checks the voice's name only; a visitor's own is taken, and changes nothing."""
        if voice is None and check_voice_name(choices.voice) != NO_VOICE:
            raise InvalidInput("The echo has no voices of its own.", code="unknown_voice")
        return choices

    def voice_pieces(self, pcm: Pcm) -> Generator[None, None, EchoVoice]:
        """There is nothing to learn."""
        yield
        return EchoVoice()

    def prime(self, slot: int, opening: Choices) -> None:
        """Takes as long as it was told to."""
        time.sleep(self.prime_seconds)
        self.sampling[slot], self.counts[slot] = opening.sampling, opening.seed

    def prime_pieces(self, slot: int, opening: Choices) -> Iterator[None]:
        """All in one piece."""
        self.prime(slot, opening)
        yield from ()

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        """Gives every slot its own frame back."""
        if self.step_seconds:
            time.sleep(self.step_seconds)
        return {slot: EchoStep(pcm, self._count(slot)) for slot, pcm in heard.items()}

    def _count(self, slot: int) -> int:
        count = self.counts.get(slot, 0)
        self.counts[slot] = count + 1
        return count

    def used(self, slot: int) -> int:
        """It remembers nothing."""
        return 0

    def set_sampling(self, slot: int, sampling: SamplingSettings) -> None:
        """Keeps it, to be looked at."""
        self.sampling[slot] = sampling

    def text(self, token: int) -> bytes:
        """An echo has no words."""
        return b""

    def save(self, slot: int) -> EchoSaved:
        """Its sampling and its count."""
        return EchoSaved(self.sampling[slot], self.counts[slot])

    def restore(self, slot: int, saved: EchoSaved) -> None:
        """Goes on counting."""
        self.sampling[slot], self.counts[slot] = saved.sampling, saved.count

    def release(self, slot: int) -> None:
        """Forgets the slot."""
        self.sampling.pop(slot, None)
        self.counts.pop(slot, None)
