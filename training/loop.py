"""A training loop by the clock: steps until the size's seconds are spent, over as many calls as it takes.

In: a journal, what was spent before, a way to save. Out: the share of the time that is spent, once a step.
Must not know: what a step does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from training.devices import Progress
from training.journal import Journal

SAVED_EVERY_SECONDS = 60.0
NOTED_EVERY_STEPS = 100


class TimedLoop:
    """Iterate over it; `finished` says afterwards whether all time is spent or the call's.

    Args:
        seconds: of training, all calls together. stop_after: seconds of this call, from the journal's begin.
        save: writes the state from which the next call goes on.
    """

    def __init__(
        self, journal: Journal, progress: Progress, seconds: float, stop_after: float | None, save: Callable[[], None]
    ) -> None:
        self.finished = False
        self._journal, self._progress, self._save = journal, progress, save
        self._seconds, self._stop_after = seconds, stop_after
        self._sums: Tensor | None = None
        self._count = 0

    def __iter__(self) -> Iterator[float]:
        began = last_saved = self._journal.seconds
        earlier = self._progress.spent
        while True:
            now = self._journal.seconds
            self._progress.spent = earlier + now - began
            self.finished = self._progress.spent >= self._seconds
            stopped = self._stop_after is not None and now > self._stop_after
            if self.finished or stopped or now - last_saved > SAVED_EVERY_SECONDS:
                self._save()
                last_saved = now
            if self.finished or stopped:
                self._journal.note("done" if self.finished else "stopped", steps=self._progress.step)
                return
            yield self._progress.spent / self._seconds
            self._progress.step += 1

    def note(self, figures: Mapping[str, Tensor]) -> None:
        """Sums figures without waiting for the device; every hundredth step their means are logged."""
        row = torch.stack([value.detach().float() for value in figures.values()])
        self._sums = row if self._sums is None else self._sums + row
        self._count += 1
        if self._progress.step % NOTED_EVERY_STEPS == 0:
            means = dict(zip(figures, (self._sums / self._count).tolist(), strict=True))
            self._journal.note("steps", steps=self._progress.step, spent=self._progress.spent, **means)
            self._sums, self._count = None, 0
