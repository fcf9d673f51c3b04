"""User tracks: what one caller says over a whole talk, and when; made before it is known what the agent answers.

In: a `random.Random`, how long utterances and answers last. Out: `Track`.
Must not know: codes, tensors. A track is encoded once, in one stream with all its past, and then meets many personas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from training.talks.timing import (
    GREETING_CHANCE,
    INTERRUPTION_CHANCE,
    LONG_PAUSE_CHANCE,
    NODDING_CHANCE,
    RESPONSE,
    STOP_SHARE,
)
from training.world.answers import answer, greeting
from training.world.personas import STYLES, draw_persona
from training.world.questions import Asked, ask, draw_question

MULTIPLE_CHANCE = 0.08  # that a question comes behind a greeting or thanks
SHORTEST_NODDED = 30  # frames of an answer that is nodded to
SHORTEST_INTERRUPTED = 18
BEFORE = {True: (4, 24), False: (6, 30)}  # frames of silence before the first turn: after a greeting, without one


@dataclass(frozen=True)
class Turn:
    """One utterance of the user.

    Attributes:
        key: which utterance of the bank. start, end: frames; it sounds from the first to just before the last.
        offset: samples that it begins after `start`'s beginning. nod: a backchannel, to be answered by nothing.
        stretch: how much quicker and higher it is said than on its shelf.
    """

    intent: str
    slot: str
    text: str
    key: int
    start: int
    end: int
    offset: int
    nod: bool = False
    stretch: float = 1.0

    @property
    def asked(self) -> Asked:
        return Asked(self.intent, self.slot, self.text)


@dataclass(frozen=True)
class Track:
    """What a user says in one talk of so many frames. greeted: the agent is to speak first."""

    style: str
    greeted: bool
    frames: int
    turns: tuple[Turn, ...]

    @property
    def products(self) -> tuple[str, ...]:
        """What is asked for, in order."""
        return tuple(turn.slot for turn in self.turns if turn.intent in ("price_of", "have"))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def track_from_json(raw: dict[str, Any]) -> Track:
    """The other way of `as_json`."""
    return Track(raw["style"], raw["greeted"], raw["frames"], tuple(Turn(**turn) for turn in raw["turns"]))


class TrackMaker:
    """Draws tracks.

    Args:
        pick: text -> (key of an utterance that says it, its length in samples, its stretch), or None where nobody does.
        answer_frames: sentence -> about how many frames the agent takes for it.
        samples: in a frame.
    """

    def __init__(
        self,
        pick: Callable[[str, Random], tuple[int, int, float] | None],
        answer_frames: Callable[[str], int],
        samples: int = 1920,
    ) -> None:
        self._pick, self._answer_frames, self._samples = pick, answer_frames, samples

    def draw(self, rng: Random, frames: int) -> Track:
        """A track at random; the gaps fit the answers of a persona of its style, more or less."""
        style = rng.choices(list(STYLES), list(STYLES.values()))[0]
        greeted = rng.random() < GREETING_CHANCE[style]
        persona = draw_persona(rng, style)
        turns: list[Turn] = []
        at = rng.randint(*BEFORE[greeted])
        if greeted:
            at += self._length(greeting(persona, rng))
        last: list[str] | None = None
        while at < frames:
            asked = draw_question(style, rng)
            if rng.random() < MULTIPLE_CHANCE:
                at = self._say(turns, ask(rng.choice(("hello", "thanks")), rng), at, frames, rng)
            at = self._say(turns, asked, at, frames, rng)
            said = answer(persona, asked, last, rng)
            last = said
            at = self._wait(turns, at, self._length(said), frames, rng)
        return Track(style, greeted, frames, tuple(turns))

    def _length(self, sentences: list[str]) -> int:
        return sum(self._answer_frames(sentence) + 1 for sentence in sentences)

    def _say(self, turns: list[Turn], asked: Asked, at: int, frames: int, rng: Random, *, nod: bool = False) -> int:
        """Adds a turn if somebody says this and it ends in time; returns the frame behind it."""
        picked = self._pick(asked.text, rng)
        if picked is None:
            return at
        key, length, stretch = picked
        offset = rng.randrange(self._samples)
        end = at + -(-(offset + length) // self._samples)
        if end >= frames:
            return frames
        turns.append(Turn(asked.intent, asked.slot, asked.text, key, at, end, offset, nod, stretch))
        return end

    def _wait(self, turns: list[Turn], at: int, answer_frames: int, frames: int, rng: Random) -> int:
        """Lets the agent answer; returns when the user speaks next."""
        begins = at + RESPONSE[1]
        if answer_frames > SHORTEST_INTERRUPTED and rng.random() < INTERRUPTION_CHANCE:
            cut = begins + rng.randint(8, answer_frames - 8)
            if rng.random() < STOP_SHARE:
                return self._say(turns, ask("stop", rng), cut, frames, rng) + rng.randint(16, 40)
            return cut
        nodded = begins
        if answer_frames > SHORTEST_NODDED and rng.random() < NODDING_CHANCE:
            at = begins + rng.randint(8, answer_frames - 14)
            nodded = self._say(turns, ask("backchannel", rng), at, frames, rng, nod=True)
        pause = rng.randint(40, 100) if rng.random() < LONG_PAUSE_CHANCE else rng.randint(4, 26)
        return max(nodded, begins + answer_frames + pause)
