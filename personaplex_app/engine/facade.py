"""The engine as the web sees it: join, hear, take, leave.

In: choices and sound from the web's thread. Out: sessions. Must not know: the web, torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices
from personaplex_app.engine.ports import Stepper
from personaplex_app.engine.session import Session
from personaplex_app.engine.slots import SlotTable, full_sentence
from personaplex_app.engine.tick_loop import TickLoop
from personaplex_app.errors import NoCapacity, ServerFault

YOU_STOPPED = "You ended the talk."


@dataclass(frozen=True)
class EngineStatus:
    """Slots and speed at a glance; `failed` is a sentence once the engine is dead, `stalled` while a step is late."""

    slots: int
    free: int
    step_ms: float
    failed: str
    stalled: bool = False


class Engine:
    """One stepper, its slots and its tick thread; use as a context manager, or `start` and `stop`."""

    def __init__(
        self,
        stepper: Stepper,
        on_fatal: Callable[[str], None] = lambda sentence: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stepper = stepper
        self._clock = clock
        self._table = SlotTable(stepper.slots)
        self._loop = TickLoop(stepper, self._table, on_fatal, clock)

    def start(self) -> None:
        """Starts the threads."""
        self._loop.start()

    def stop(self) -> None:
        """Ends every talk and the threads."""
        self._loop.stop()

    def __enter__(self) -> Engine:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def status(self) -> EngineStatus:
        """What the page shows of the engine."""
        loop, table = self._loop, self._table
        return EngineStatus(table.total, table.free, 1000 * loop.step_seconds, loop.failed, loop.stalled)

    def check_capacity(self) -> None:
        """Raises NoCapacity or ServerFault where a visitor who came now could not be let in."""
        if self._loop.failed:
            raise ServerFault(self._loop.failed)
        if not self._table.free:
            raise NoCapacity(full_sentence(self._table.total))

    def join(self, choices: Choices, notify: Callable[[], None] = lambda: None) -> Session:
        """Claims a slot and queues the conversation for priming; blocking parts run here, so call it in a thread.

        Raises NoCapacity at once when all slots are taken, InvalidInput for choices that cannot be used.
        """
        self.check_capacity()
        opening = self.stepper.open(choices)
        return self._loop.claim_and_add(
            lambda table: Session(table.claim(), choices, opening, notify=notify, clock=self._clock)
        )

    def hear(self, session: Session, pcm: Pcm) -> None:
        """Sound from a session's microphone, float32 [n] at 24 kHz; never blocks."""
        if session.hear(pcm):
            self._loop.nudge()

    def leave(self, session: Session, because: str = YOU_STOPPED) -> None:
        """Ends a session; its slot is free again after the step that may be running."""
        session.end(because)
        self._loop.nudge()
