"""What a talk has come to: all of it but sound on its way, so that it can go on in another slot.

In: what the tick thread counts and writes down. Out: plain values. Must not know: threads, queues, steppers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from personaplex_app.controls import Choices
from personaplex_app.engine.loop_guard import PUT_BACK, REPEATS, SILENT, STEADIED, GuardAction
from personaplex_app.engine.onlookers import Onlookers
from personaplex_app.engine.past import Past
from personaplex_app.engine.talk_sampling import TalkSampling
from personaplex_app.records.transcript import Transcript


@dataclass
class Counters:
    """What went through a session, in frames; and what its guards noticed and did, in times."""

    heard: int = 0
    heard_dropped: int = 0
    stepped: int = 0
    silence_filled: int = 0
    missed: int = 0
    spoken_dropped: int = 0
    repeats: int = 0
    silent: int = 0
    steadied: int = 0
    put_back: int = 0
    leaks: int = 0

    def note(self, done: GuardAction) -> None:
        """Counts what the loop guard did; a reason counts when it is noticed, not when it is put back."""
        if done.action == PUT_BACK:
            self.put_back += 1
        else:
            self.repeats += done.reason == REPEATS
            self.silent += done.reason == SILENT
            self.steadied += done.action == STEADIED


@dataclass(frozen=True)
class TalkSoFar:
    """A talk without its slot, its queues and its owner's connection.

    Attributes:
        sampling: with what was asked for and not applied yet.
        before_seconds: of the same call, in talks that were started over. past: how much of the window is used.
    """

    choices: Choices
    sampling: TalkSampling
    counters: Counters
    transcript: Transcript
    text_tokens: list[int]
    onlookers: Onlookers
    before_seconds: float = 0.0
    past: Past = field(default_factory=Past)
