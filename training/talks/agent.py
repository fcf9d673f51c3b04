"""The agent's side of a track: which sentence begins when, and where it is cut off.

In: a `Track`, a `Persona`, how long each rendering lasts. Out: `Line`s in order of time.
Must not know: codes, tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from training.talks.timing import BETWEEN_SENTENCES, GREETING_DELAY, MM_CHANCE, RESPONSE, YIELD
from training.talks.tracks import Track, Turn
from training.world.answers import MM, answer, greeting
from training.world.personas import Persona

MM_BEFORE_END = 14  # frames
Rendering = TypeVar("Rendering")


@dataclass(frozen=True)
class Line(Generic[Rendering]):
    """One sentence of the agent: its rendering, from frame `start` to just before `end` (cut off if that is early)."""

    text: str
    rendering: Rendering
    start: int
    end: int


class AgentSide(Generic[Rendering]):
    """Writes the agent's lines.

    Args:
        renderings: (sentence, random numbers) -> (rendering, frames), or None for what nobody has said.
    """

    def __init__(self, renderings: Callable[[str, Random], tuple[Rendering, int] | None], rng: Random) -> None:
        self._renderings, self._rng = renderings, rng
        self._lines: list[Line[Rendering]] = []

    def lines(self, track: Track, persona: Persona, first: int = 0, until: int | None = None) -> list[Line[Rendering]]:
        """The lines of a talk that is looked at from frame `first` to just before `until`."""
        self._lines = []
        last: list[str] | None = None
        if track.greeted and first == 0:
            last = greeting(persona, self._rng)
            self._say(last, self._rng.randint(*GREETING_DELAY))
        for index, turn in enumerate(track.turns):
            if turn.start < first or turn.nod:
                continue
            if until is not None and turn.start >= until:
                break
            self._yield_to(turn)
            if turn.intent == "story" and self._rng.random() < MM_CHANCE:
                self._say([MM], turn.end - MM_BEFORE_END)
            if self._goes_on(track, index):
                continue  # the answer is to what comes right behind
            said = answer(persona, turn.asked, last, self._rng)
            last = said if turn.intent not in ("thanks", "bye", "stop", "repeat") else last
            self._say(said, turn.end + self._rng.randint(*RESPONSE))
        return self._lines

    def _goes_on(self, track: Track, index: int) -> bool:
        """Whether the user speaks on without a pause."""
        following = track.turns[index + 1] if index + 1 < len(track.turns) else None
        return following is not None and not following.nod and following.start - track.turns[index].end < RESPONSE[0]

    def _say(self, sentences: list[str], at: int) -> None:
        for sentence in sentences:
            found = self._renderings(sentence, self._rng)
            if found is None:
                continue
            key, frames = found
            self._lines.append(Line(sentence, key, at, at + frames))
            at += frames + self._rng.randint(*BETWEEN_SENTENCES)

    def _yield_to(self, turn: Turn) -> None:
        """Cuts what would sound on when the user has begun to speak."""
        silent = turn.start + self._rng.randint(*YIELD)
        kept = [line for line in self._lines if line.start < min(silent, turn.start + YIELD[0] - 1)]
        self._lines = [Line(line.text, line.rendering, line.start, min(line.end, silent)) for line in kept]
