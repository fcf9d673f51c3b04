"""A caller who listens: asks when the persona is quiet, waits for its answer, interrupts now and then.

In: what to ask, how it sounds, the persona's frames. Out: the caller's frames, and `Exchange`s.
Must not know: models, what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from training.speech.levels import Sound
from training.world.questions import Asked

FRAME = 1920
FRAME_SECONDS = 0.08
LOUD = 0.012  # RMS of a frame in which somebody speaks
QUIET_FRAMES = 16  # 1.3 s: the answer is over
PATIENCE_FRAMES = 70  # 5.6 s without an answer
GREETING_FRAMES = 90  # 7.2 s for a greeting; callers say something then
LONGEST_FRAMES = 125  # 10 s of an answer; then the caller talks over it
NO_GREETING_FRAMES = 20  # 1.6 s in which it may begin
INTERRUPTED_AFTER_FRAMES = 10  # 0.8 s of the answer


@dataclass
class Exchange:
    """One question and what came of it, in frames of the talk.

    Attributes:
        begins: first frame of the question. ends: the frame in which it ends. until: where the next begins.
        interrupts: it was said over the persona's answer. cut: it was itself not answered, but interrupted.
    """

    asked: Asked
    begins: int
    ends: int
    until: int = -1
    interrupts: bool = False
    cut: bool = False


@dataclass(frozen=True)
class Plan:
    """What the caller means to do: a question, and whether its answer is to be interrupted by `then`."""

    asked: Asked
    then: Asked | None = None


class Caller:
    """Frame by frame: `speak` gives the caller's next frame, `hear` takes the persona's."""

    def __init__(self, plans: Iterator[Plan], say: Callable[[Asked], Sound]) -> None:
        self.exchanges: list[Exchange] = []
        self.loud: list[bool] = []
        self._plans, self._say = plans, say
        self._pending: Sound = np.zeros(0, np.float32)
        self._then: Asked | None = None
        self._since = 0  # frames since the last question's end, or since the talk began

    def speak(self) -> Sound:
        """float32 [1920]."""
        if not len(self._pending):
            self._decide()
        frame = np.zeros(FRAME, np.float32)
        part = self._pending[:FRAME]
        frame[: len(part)] = part
        self._pending = self._pending[FRAME:]
        self._since = 0 if len(part) else self._since + 1
        return frame

    def hear(self, pcm: Sound) -> None:
        """The persona's frame of the same time."""
        self.loud.append(bool(np.sqrt(np.mean(np.square(pcm))) > LOUD))

    def _decide(self) -> None:
        if self._then is not None and self._speaking_for() >= INTERRUPTED_AFTER_FRAMES:
            self.exchanges[-1].cut = True
            self._begin(self._then, interrupts=True)
            self._then = None
        elif self._may_ask():
            plan = next(self._plans)
            self._begin(plan.asked, interrupts=False)
            self._then = plan.then

    def _begin(self, asked: Asked, *, interrupts: bool) -> None:
        self._pending = self._say(asked)
        now = len(self.loud)
        if self.exchanges:
            self.exchanges[-1].until = now
        ends = now + max(0, (len(self._pending) - 1) // FRAME)
        self.exchanges.append(Exchange(asked, now, ends, interrupts=interrupts))

    def _speaking_for(self) -> int:
        """For how many frames the persona has spoken without a pause."""
        count = 0
        for loud in reversed(self.loud[-self._since :] if self._since else []):
            if not loud:
                break
            count += 1
        return count

    def _may_ask(self) -> bool:
        answered = self.loud[len(self.loud) - self._since :]
        if not any(answered):
            patience = PATIENCE_FRAMES if self.exchanges else NO_GREETING_FRAMES
            return self._since >= patience
        quiet = not any(self.loud[-QUIET_FRAMES:]) and self._since >= QUIET_FRAMES
        return quiet or self._since >= (LONGEST_FRAMES if self.exchanges else GREETING_FRAMES)
