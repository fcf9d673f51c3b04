"""The sampling of one talk: what its visitor has chosen, what the loop guard makes of it, what the stepper holds.

In: wishes from the web's thread, frames from the tick thread. Out: sampling that is to hold from the next step on, and
what the guard did. Must not know: queues, transcripts, steppers.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.loop_guard import NOTICED, GuardAction, LoopGuard


@dataclass(frozen=True)
class Applied:
    """Sampling that holds, and the first frame of the talk that it holds for."""

    sampling: SamplingSettings
    from_frame: int


class TalkSampling:
    """Goes on with its talk into another slot.

    Attributes:
        chosen: as the visitor has it; `applied` differs from it while the guard steadies the talk.
        guard: watches for loops; belongs to the tick thread.
    """

    def __init__(self, chosen: SamplingSettings, guard: LoopGuard) -> None:
        self.chosen = chosen
        self.applied = Applied(chosen, 0)
        self.guard = guard
        self._lock = threading.Lock()
        self._wanted: SamplingSettings | None = None
        self._wanted_guard: bool | None = None

    def copy(self) -> TalkSampling:
        """The same wishes for a talk that goes on elsewhere; the guard itself goes with it."""
        twin = TalkSampling(self.chosen, self.guard)
        twin.applied = self.applied
        with self._lock:
            twin._wanted, twin._wanted_guard = self._wanted, self._wanted_guard
        return twin

    # The web's thread.

    def want(self, sampling: SamplingSettings) -> None:
        """Asks for new sampling, from the next step on."""
        with self._lock:
            self._wanted = sampling

    def want_guard(self, allowed: bool) -> None:
        """Allows the guard to change the sampling, or forbids it, from the next step on."""
        with self._lock:
            self._wanted_guard = allowed

    @property
    def asked(self) -> tuple[SamplingSettings, bool]:
        """What was asked for last, applied or not yet: sampling, and whether the guard may change it."""
        with self._lock:
            guarded = self.guard.allowed if self._wanted_guard is None else self._wanted_guard
            return self._wanted or self.chosen, guarded

    # The tick thread.

    def take_guard(self, frame: int) -> GuardAction | None:
        """Lets the guard know whether it may act, where that was asked for; what it did about it."""
        with self._lock:
            allowed, self._wanted_guard = self._wanted_guard, None
        return None if allowed is None else self._acted(self.guard.allow(allowed, frame))

    def take(self) -> SamplingSettings | None:
        """Sampling that is to hold from the next step on, where something was asked for or the guard acted."""
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is None:
            return None
        self.chosen = wanted
        return self.guard.sampling(wanted)

    def saw(self, piece: bytes, frame: int, user_speaks: bool) -> GuardAction | None:
        """Shows the guard what one frame brought; what it did about it."""
        return self._acted(self.guard.saw(piece, frame, user_speaks, self.chosen))

    def _acted(self, done: GuardAction | None) -> GuardAction | None:
        """A change of the guard's goes the way that the visitor's go."""
        if done is not None and done.action != NOTICED:
            with self._lock:
                self._wanted = self._wanted or self.chosen
        return done
