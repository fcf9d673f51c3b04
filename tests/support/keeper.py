"""A stepper that keeps what prompts leave behind, in pieces that can be counted."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from support.engine import ProbeStepper

from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.errors import InvalidInput

POSITIONS_A_PIECE = 10


@dataclass(frozen=True)
class Opened:
    """What `open` gives: a letter of the prompt is a position."""

    choices: Choices
    positions: int
    known_as: tuple[str, str]
    sampling: SamplingSettings
    seed: int


class KeepingStepper(ProbeStepper):
    """An echo whose prompts take time, in pieces of 10 letters; `room` of them can be kept.

    Attributes:
        kept: names, the first to go first. done: every piece that was read, by whom (`ready` or `visitor`) and what.
        refuses: prompts that `open` refuses; breaks: prompts whose second piece fails, with this error.
    """

    def __init__(self, slots: int = 1, piece_seconds: float = 0.0, room: int = 100) -> None:
        super().__init__(slots)
        self.piece_seconds, self.room = piece_seconds, room
        self.kept: list[Hashable] = []
        self.done: list[tuple[str, str]] = []
        self.refuses: set[str] = set()
        self.breaks: dict[str, Exception] = {}

    def open(self, choices: Choices, voice: Any = None) -> Any:
        if choices.prompt in self.refuses:
            raise InvalidInput("The prompt is too long.")
        known_as = (choices.voice, choices.prompt)
        return Opened(choices, len(choices.prompt), known_as, choices.sampling, choices.seed)

    def prime(self, slot: int, opening: Any) -> None:
        for _ in self.prime_pieces(slot, opening):
            pass

    def prime_pieces(self, slot: int, opening: Any) -> Iterator[None]:
        if opening.known_as not in self.kept:
            yield from self._read("visitor", opening)
            self.kept.append(opening.known_as)
        super().prime(slot, opening)

    def _read(self, who: str, opening: Any) -> Iterator[None]:
        prompt = opening.choices.prompt
        for first in range(0, max(len(prompt), 1), POSITIONS_A_PIECE):
            if first:
                yield
                if prompt in self.breaks:
                    raise self.breaks[prompt]
            self.threads.add("tick")
            time.sleep(self.piece_seconds)
            self.done.append((who, prompt))

    def keeps(self, known_as: Hashable) -> bool:
        return known_as in self.kept

    def has_room(self, opening: Any) -> bool:
        return len(self.kept) < self.room

    def prepare_pieces(self, opening: Any) -> Iterator[None]:
        yield from self._read("ready", opening)
        self.kept.insert(0, opening.known_as)
