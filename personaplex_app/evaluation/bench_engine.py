"""An engine full of calls, with its real threads, fed on an absolute schedule.

In: a stepper whose slots may hold full windows already. Out: how long its ticks took and how soon frames were answered.
Must not know: models, what is done with the figures.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from personaplex_app.controls import Choices
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.loop_events import TickReport
from personaplex_app.engine.ports import Stepper
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.errors import NoCapacity, ServerFault
from personaplex_app.evaluation.bench_report import Answers
from personaplex_app.evaluation.bench_schedule import answer_times, frames_in, run_paced
from personaplex_app.evaluation.bench_talkers import Talkers
from personaplex_app.voices import NO_VOICE

PATIENCE_SECONDS = 120.0


class Seated:
    """A stepper whose slots hold a conversation already: the first prompt for each slot is left out."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self.filled = set(range(stepper.slots))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stepper, name)

    def prime(self, slot: int, opening: Any) -> None:
        """Nothing the first time; the stepper's own afterwards."""
        for _ in self.prime_pieces(slot, opening):
            pass

    def prime_pieces(self, slot: int, opening: Any) -> Iterator[None]:
        """The same in pieces."""
        if slot in self.filled:
            self.filled.remove(slot)
        else:
            yield from self._stepper.prime_pieces(slot, opening)


class Crowd:
    """An engine full of calls that one thread feeds, and its ticks."""

    def __init__(self, talkers: Talkers) -> None:
        self._talkers = talkers
        self._seated = Seated(talkers.stepper)
        self._ticks: list[tuple[float, float]] = []
        self.sessions: list[Session] = []
        self.engine = Engine(cast(Stepper, self._seated), clock=time.perf_counter, on_tick=self._note)

    def _note(self, report: TickReport) -> None:
        now = time.perf_counter()
        self._ticks.append((now - report.seconds, now))

    @property
    def windows_kept(self) -> bool:
        """Whether the engine took every slot as it was."""
        return not self._seated.filled

    def begin(self) -> None:
        """Seats a call in every slot, once the engine runs."""
        for slot in self._talkers.slots:
            self.sessions.append(self.engine.join(Choices("", NO_VOICE, self._talkers.sampling, slot)))
        for session in self.sessions:
            _wait_until(lambda session=session: session.state is not SessionState.PRIMING, self.engine)  # type: ignore[misc]
        check_alive(self.engine, self.sessions)

    def feed(self, seconds: float) -> Answers:
        """Every call hears a frame every 80 ms; raises ServerFault where one of them ends by itself."""
        self._ticks.clear()
        heard_at: list[float] = []

        def hear(index: int) -> None:
            heard_at.append(time.perf_counter())
            for place, session in enumerate(list(self.sessions)):
                self.engine.hear(session, self._talkers.frame(place, index))

        run_paced(hear, frames_in(seconds))
        time.sleep(2 * self.engine.status.step_ms / 1000 + 0.05)  # the last frame's tick
        check_alive(self.engine, self.sessions)
        ticks = list(self._ticks)
        answers = answer_times(heard_at, ticks)
        durations = [1000 * (end - begin) for begin, end in ticks[: len(heard_at)]]
        return Answers(len(heard_at), answers.missed, durations, answers.answer_ms)

    def empty(self) -> None:
        """Everybody leaves, and the slots are free again."""
        for session in self.sessions:
            self.engine.leave(session)
        self.sessions.clear()
        wait_until_idle(self.engine)


def joined(engine: Engine, choices: Choices) -> Session:
    """A call that talks by now; waits for a slot that is about to be free."""
    changed = threading.Event()
    until = time.perf_counter() + PATIENCE_SECONDS
    while True:
        try:
            session = engine.join(choices, changed.set)
            break
        except NoCapacity:
            if time.perf_counter() > until:
                raise
            time.sleep(0.002)
    while session.state is SessionState.PRIMING and time.perf_counter() < until:
        changed.wait(0.5)
        changed.clear()
    check_alive(engine, [session])
    return session


def check_alive(engine: Engine, sessions: list[Session]) -> None:
    """Raises ServerFault where a call that should talk does not."""
    for session in list(sessions):
        if session.state is not SessionState.TALKING:
            raise ServerFault(engine.status.failed or session.ended_because or "A call did not begin to talk.")


def wait_until_idle(engine: Engine) -> None:
    """Until every slot is free; raises ServerFault where that takes too long."""
    _wait_until(lambda: engine.status.free == engine.status.slots, engine)


def _wait_until(true: Callable[[], bool], engine: Engine) -> None:
    until = time.perf_counter() + PATIENCE_SECONDS
    while not true():
        if engine.status.failed or time.perf_counter() > until:
            raise ServerFault(engine.status.failed or "A slot did not become free.")
        time.sleep(0.002)
