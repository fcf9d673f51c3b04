"""The one thread that touches the stepper: prime newcomers, take frames, step, deliver.

In: sessions that joined. Out: spoken frames into their queues, reasons where something failed.
Must not know: the web, torch; what a step does.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.ports import Stepper, StepResult
from personaplex_app.engine.scheduler import TickPlan, plan_tick
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.engine.slots import SlotState, SlotTable

log = logging.getLogger(__name__)

STALL_SECONDS = 0.8  # a step that takes longer is told to those who wait for it
HUNG_SECONDS = 10.0  # a step that takes longer is not coming back
HUNG_PROMPT_SECONDS = 120.0  # nor is a prompt that takes longer
VANISHED_SECONDS = 4.5  # a talk whose microphone has sent nothing for so long is over
STEP_FAILED = "The engine failed in the middle of a step. Start again; if it happens again, tell the operator."
PRIME_FAILED = "The engine failed while it read the prompt. Start again; if it happens again, tell the operator."
NOT_FINITE = "The model's numbers ran out of bounds and the talk was ended. Start again."
ENGINE_DEAD = "The engine has stopped working. The operator has to restart it."
VANISHED = "The connection was lost: nothing came from the microphone for some seconds."
CLOSING = "The server is shutting down."


class TickLoop:
    """Runs until `stop`; `failed` holds the sentence once the stepper is beyond repair.

    Args:
        on_fatal: called once, from a thread, when the engine is dead; the process should end soon after.
    """

    def __init__(
        self,
        stepper: Stepper,
        table: SlotTable,
        on_fatal: Callable[[str], None] = lambda sentence: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failed = ""
        self.step_seconds = 0.0
        self._stepper = stepper
        self._table = table
        self._on_fatal = on_fatal
        self._clock = clock
        self._wake = threading.Condition()
        self._sessions: list[Session] = []
        self._last_tick = float("-inf")
        self._busy: tuple[float, float] | None = None  # since when the stepper works, and how long it may
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="tick", daemon=True)
        self._guard = threading.Thread(target=self._watch, name="tick-guard", daemon=True)

    def start(self) -> None:
        """Starts the tick thread and its guard."""
        self._thread.start()
        self._guard.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """Ends every talk and joins both threads."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        self._thread.join(timeout_seconds)
        self._guard.join(timeout_seconds)
        for session in self._snapshot():
            session.end(CLOSING)

    def nudge(self) -> None:
        """Something a session needs has changed: a frame came, or it ended."""
        with self._wake:
            self._wake.notify_all()

    @property
    def stalled(self) -> bool:
        """Whether the stepper works on something for so long that those who talk notice."""
        busy = self._busy
        return busy is not None and self._clock() - busy[0] > STALL_SECONDS

    def claim_and_add(self, make: Callable[[SlotTable], Session]) -> Session:
        """Claims a slot and adds its session in one breath; what `make` raises leaves nothing behind."""
        with self._wake:
            session = make(self._table)
            self._sessions.append(session)
            self._wake.notify_all()
        return session

    def _snapshot(self) -> list[Session]:
        with self._wake:
            return list(self._sessions)

    # The tick thread.

    def _run(self) -> None:
        try:
            while not self._stopping and not self.failed:
                self._let_go()
                self._prime_newcomer()
                plan = self._plan()
                if plan.ready:
                    self._tick(plan)
                else:
                    self._wait(plan.wait_seconds)
        except Exception:
            log.exception("the tick thread failed")
            self._die(ENGINE_DEAD)
        for session in self._snapshot():
            session.end(self.failed or CLOSING)

    def _wait(self, seconds: float | None) -> None:
        with self._wake:
            if not self._stopping and not self._plan_locked().ready and not self._has_errands():
                self._wake.wait(0.5 if seconds is None else min(seconds, 0.5))

    def _has_errands(self) -> bool:
        return any(session.state is not SessionState.TALKING for session in self._sessions)

    def _plan(self) -> TickPlan:
        with self._wake:
            return self._plan_locked()

    def _plan_locked(self) -> TickPlan:
        talking = [session.view() for session in self._sessions if session.state is SessionState.TALKING]
        return plan_tick(self._clock(), self._last_tick, talking)

    def _let_go(self) -> None:
        """Frees the slots of talks that are over; nothing of theirs is running on this thread now."""
        for session in self._snapshot():
            if session.state is not SessionState.ENDED and self._vanished(session):
                session.end(VANISHED)
            if session.state is SessionState.ENDED:
                self._free(session)

    def _vanished(self, session: Session) -> bool:
        return session.state is SessionState.TALKING and self._clock() - session.last_heard_at > VANISHED_SECONDS

    def _free(self, session: Session) -> None:
        """Wipes the slot before it is given away; a stepper that cannot even do that is dead."""
        with self._wake:
            self._table.drain(session.tenancy)
        with self._working(HUNG_SECONDS):
            self._stepper.release(session.tenancy.slot)
        with self._wake:
            self._table.release(session.tenancy)
            self._sessions.remove(session)

    def _prime_newcomer(self) -> None:
        """One a round, so that those who talk wait for one prompt at most."""
        newcomers = [session for session in self._snapshot() if session.state is SessionState.PRIMING]
        if not newcomers:
            return
        session = newcomers[0]
        try:
            with self._working(HUNG_PROMPT_SECONDS):
                self._stepper.prime(session.tenancy.slot, session.opening)
        except Exception:
            log.exception("priming slot %d failed", session.tenancy.slot)
            session.end(PRIME_FAILED)
            return
        with self._wake:
            alive = session.state is SessionState.PRIMING and self._table.go_live(session.tenancy)
        if alive:
            session.begin()

    def _tick(self, plan: TickPlan) -> None:
        by_slot = {session.tenancy.slot: session for session in self._snapshot()}
        stepping = {slot: by_slot[slot] for slot in (*plan.heard, *plan.silent)}
        for session in by_slot.values():
            if session.state is SessionState.TALKING and session.tenancy.slot not in stepping:
                session.counters.missed += 1
        heard = {slot: session.take_heard() for slot, session in stepping.items()}
        self._last_tick = self._clock()
        try:
            with self._working(HUNG_SECONDS):
                for slot, session in stepping.items():
                    self._apply_wanted(slot, session)
                results = self._stepper.step(heard)
            for slot, session in stepping.items():
                self._deliver(session, results[slot])
        except Exception:
            # Whose row was at fault is unknown: all who were in the step end, and `_let_go` wipes their slots.
            log.exception("step failed")
            for session in stepping.values():
                session.end(STEP_FAILED)
        finally:
            self.step_seconds = self._clock() - self._last_tick

    def _deliver(self, session: Session, result: StepResult) -> None:
        """To the tenant that was in the step, as long as it still is one."""
        session.stalled = False
        if self._state(session) is not SlotState.LIVE:
            return
        if not result.healthy:
            session.end(NOT_FINITE)
            return
        session.deliver(result.pcm, result.text_token, self._stepper.text(result.text_token))

    @contextlib.contextmanager
    def _working(self, limit_seconds: float) -> Iterator[None]:
        """While inside, the guard counts."""
        self._busy = (self._clock(), limit_seconds)
        try:
            yield
        finally:
            self._busy = None

    def _state(self, session: Session) -> SlotState:
        with self._wake:
            return self._table.state(session.tenancy)

    def _apply_wanted(self, slot: int, session: Session) -> None:
        wanted = session.take_wanted()
        if wanted is not None:
            self._stepper.set_sampling(slot, wanted)
            session.note_applied(wanted)

    def _die(self, sentence: str) -> None:
        if self.failed:
            return
        self.failed = sentence
        for session in self._snapshot():
            session.end(sentence)
        self._on_fatal(sentence)

    # The guard's thread.

    def _watch(self) -> None:
        """Tells those who wait when a step stalls, and gives the engine up when it hangs."""
        while not self._stopping and not self.failed:
            time.sleep(FRAME_SECONDS)
            busy = self._busy
            if busy is None:
                continue
            taken = self._clock() - busy[0]
            if taken > busy[1]:
                log.error("the stepper has not come back for %.0f s", taken)
                self._die(ENGINE_DEAD)
            elif taken > STALL_SECONDS:
                self._tell_stalled()

    def _tell_stalled(self) -> None:
        for session in self._snapshot():
            if session.state is SessionState.TALKING and not session.stalled:
                session.stalled = True
                session.notify()
