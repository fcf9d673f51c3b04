"""A stepper with voices, each of which begins to speak after a moment, for tests of what the model says to nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from support.engine import ProbeStepper, frame_of
from support.keeper import KeepingStepper

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices
from personaplex_app.engine.echo import EchoStep
from personaplex_app.errors import InvalidInput

VOICES = ("NATF0", "NATM1", "VARF2", "VARM3", "TINY0")
QUIET_FRAMES = 5
LOUD = 0.05


class SpeakingStepper(KeepingStepper):
    """In a slot with a voice it is quiet for some frames and then loud; in one without it is an echo.

    Attributes:
        silent: how many talks with a voice say nothing before one does. broken: voices whose files are none.
        primed: what was put into slots, in order. speaking: voices in slots now, and for how many frames; most: of
            them at once.
    """

    def __init__(self, slots: int = 1) -> None:
        super().__init__(slots)
        self.voice_names = list(VOICES)
        self.silent: dict[str, int] = {}
        self.broken: set[str] = set()
        self.primed: list[Any] = []
        self.speaking: dict[int, tuple[str, int]] = {}
        self.most = 0

    def open(self, choices: Choices, voice: Any = None) -> Any:
        if choices.voice in self.broken:
            raise InvalidInput(f"The voice {choices.voice} is not a PersonaPlex voice file.")
        return super().open(choices, voice)

    def prime_pieces(self, slot: int, opening: Any) -> Iterator[None]:
        self.threads.add(threading.current_thread().name)
        self.primed.append(opening)
        yield
        ProbeStepper.prime(self, slot, opening)
        if opening.choices.voice != "none":
            self.speaking[slot] = opening.choices.voice, 0
            self.most = max(self.most, len(self.speaking))

    def talks(self, voice: str) -> int:
        """How many talks with a voice have begun."""
        return sum(opening.choices.voice == voice for opening in self.primed)

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        steps = super().step(heard)
        for slot in heard:
            if slot in self.speaking:
                voice, age = self.speaking[slot]
                self.speaking[slot] = voice, age + 1
                loud = age >= QUIET_FRAMES and self.talks(voice) > self.silent.get(voice, 0)
                steps[slot] = replace(steps[slot], pcm=frame_of(LOUD if loud else 0.0))
        return steps

    def release(self, slot: int) -> None:
        self.speaking.pop(slot, None)
        super().release(slot)


class WholePromptStepper(SpeakingStepper):
    """The same, reading prompts in one go and keeping none, as the plain engine does."""

    keeps = has_room = prepare_pieces = None  # type: ignore[assignment]
