"""The one thread that touches the stepper: prime newcomers, take frames, step, deliver; save those who may come back.

In: sessions that joined, errands. Out: spoken frames into their queues, reasons where something failed, parked talks.
Must not know: the web, torch; what a step does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from statistics import median

from personaplex_app.engine.errands import Errands
from personaplex_app.engine.guard import Guard
from personaplex_app.engine.loan import Loan
from personaplex_app.engine.loop_events import LoopEvents, TickReport
from personaplex_app.engine.ports import SavedSlot, Stepper, StepResult
from personaplex_app.engine.primer import Primer
from personaplex_app.engine.readying import Readying
from personaplex_app.engine.roster import Roster
from personaplex_app.engine.scheduler import TickPlan
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.out_of_memory import is_out_of_memory, log_fault, smaller_plan
from personaplex_app.thread_names import name_thread

log = logging.getLogger(__name__)

RECENT_STEPS = 25  # whose median is the speed that is shown
HUNG_SECONDS = 10.0  # a step that takes longer is not coming back
HUNG_PROMPT_SECONDS = 120.0  # nor is a prompt that takes longer
VANISHED_SECONDS = 4.5  # a talk whose microphone has sent nothing for so long is over
STEP_FAILED = "The engine failed in the middle of a step. Start again; if it happens again, tell the operator."
PRIME_FAILED = "The engine failed while it read the prompt. Start again; if it happens again, tell the operator."
RESTORE_FAILED = (
    "The engine failed while it took your talk up again. Start a new one; if it happens again, tell the operator."
)
NOT_FINITE = "The model's numbers ran out of bounds and the talk was ended. Start again."
NO_MEMORY = "The server ran out of memory and your talk was ended. Start again; if it happens again, tell the operator."
ENGINE_DEAD = "The engine has stopped working. The operator has to restart it."
VANISHED = "The connection was lost: nothing came from the microphone for some seconds."
CLOSING = "The server is shutting down."


class TickLoop:
    """Runs until `stop`; `failed` holds the sentence once the stepper is beyond repair."""

    def __init__(
        self,
        stepper: Stepper,
        roster: Roster,
        events: LoopEvents | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.errands = Errands(clock)
        self.readying = Readying(stepper, clock)
        self.failed = ""
        self.step_seconds = 0.0
        self._recent: deque[float] = deque(maxlen=RECENT_STEPS)
        self._stepper = stepper
        self._roster = roster
        self._events = events or LoopEvents()
        self._clock = clock
        self._last_tick = float("-inf")
        self._reading: Session | None = None  # whose prompt is being read just now
        self._primer = Primer(self._pieces, clock)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="tick", daemon=True)
        self._guard = Guard(self._tell_stalled, lambda: self._die(ENGINE_DEAD), clock)

    @property
    def started(self) -> bool:
        """Whether the stepper belongs to the tick thread by now."""
        return self._thread.ident is not None

    @property
    def stalled(self) -> bool:
        """Whether the stepper is late with what it works on."""
        return self._guard.stalled

    def start(self) -> None:
        """Starts the tick thread and its guard."""
        self._thread.start()
        self._guard.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """Ends every talk and joins both threads."""
        self._stopping = True
        self._roster.close(CLOSING)
        self._thread.join(timeout_seconds)
        self.errands.close(CLOSING)
        self._guard.stop(timeout_seconds)

    # The tick thread.

    def _run(self) -> None:
        name_thread("tick")
        try:
            while not self._stopping and not self.failed:
                self._let_go()
                self._prime_newcomer()
                self._run_errand()
                plan = self._plan()
                if plan.ready:
                    self._tick(plan)
                else:
                    self._roster.wait(self._plan, self._is_work)
        except Exception as error:
            self._log(error, "the tick thread failed")
            self._die(ENGINE_DEAD)

    def _plan(self) -> TickPlan:
        return self._roster.plan(self._clock(), self._last_tick)

    def _let_go(self) -> None:
        """Frees the slots of talks that are over, and the lent one where a visitor wants it.

        Nothing of theirs is running on this thread now.
        """
        loan = self._roster.wanted_loan
        if loan is not None:
            with self._guard.working(HUNG_SECONDS):
                loan.end()
        for session in self._roster.sessions:
            if session.state is not SessionState.ENDED and self._vanished(session):
                session.end(VANISHED, park=True)
            if session.state is SessionState.ENDED:
                self._free(session)

    def _vanished(self, session: Session) -> bool:
        return session.state is SessionState.TALKING and self._clock() - session.last_heard_at > VANISHED_SECONDS

    def _free(self, session: Session) -> None:
        """Wipes the slot before it is given away; a stepper that cannot even do that is dead."""
        self._roster.drain(session)
        saved = self._saved(session) if session.parks else None
        with self._guard.working(HUNG_SECONDS):
            self._stepper.release(session.tenancy.slot)
        if self._roster.vacate(session, saved):
            self._events.on_parked(session.grant)

    def lend(self) -> Loan:
        """A free slot for an errand, which alone may call this; raises NoCapacity where none is free."""
        return self._roster.lend(self._end_loan)

    def _end_loan(self, loan: Loan) -> None:
        try:
            self._stepper.release(loan.tenancy.slot)
        except Exception as error:
            self._log(error, "a lent slot could not be wiped")
            self._die(ENGINE_DEAD)
            return
        self._roster.end_loan(loan)

    def _saved(self, session: Session) -> SavedSlot | None:
        """The state to park; a talk that cannot be saved is over, and nobody else suffers."""
        if session.saved is not None:
            return session.saved  # it had not begun to talk again
        try:
            with self._guard.working(HUNG_SECONDS):
                return self._stepper.save(session.tenancy.slot)
        except Exception as error:
            self._log(error, f"slot {session.tenancy.slot} could not be saved; its talk cannot be resumed")
            return None

    def _prime_newcomer(self) -> None:
        """One piece of one prompt, where the ticks leave room for it."""
        session = self._roster.newcomer()
        if session is None or not self._primer.may_work(self._last_tick, self._anybody_talks()):
            return
        try:
            self._reading = session
            with self._guard.working(HUNG_PROMPT_SECONDS):
                ready = self._primer.work_for(session)
        except Exception as error:
            self._log(error, f"priming slot {session.tenancy.slot} failed")
            self._fail(session, _told(error, RESTORE_FAILED if session.resumed else PRIME_FAILED))
            return
        finally:
            self._reading = None
        if ready and self._roster.go_live(session):
            session.begin()

    def _run_errand(self) -> None:
        """One piece of work that is no talk's, where neither newcomers nor ticks need the time."""
        if self._errand_fits():
            with self._guard.working(HUNG_PROMPT_SECONDS):
                self.errands.work()

    def _errand_fits(self) -> bool:
        return self._roster.newcomer() is None and self.errands.may_work(self._last_tick, self._anybody_talks())

    def _anybody_talks(self) -> bool:
        return any(session.state is SessionState.TALKING for session in self._roster.sessions)

    def _is_work(self) -> bool:
        """Whether this thread is needed now for what is no tick."""
        if self._roster.wanted_loan or any(one.state is SessionState.ENDED for one in self._roster.sessions):
            return True
        if self._roster.newcomer() is not None:
            return self._primer.may_work(self._last_tick, self._anybody_talks())
        return self._errand_fits()

    def _pieces(self, session: Session) -> Iterator[None]:
        slot = session.tenancy.slot
        if session.saved is None:
            yield from self.readying.timed(session.opening, self._stepper.prime_pieces(slot, session.opening))
        else:
            self._stepper.restore(slot, session.saved)

    def _tick(self, plan: TickPlan) -> None:
        # Who is primed is in no plan, and may wait for a slot that the talk before it has not left.
        here = [session for session in self._roster.sessions if session.state is not SessionState.PRIMING]
        by_slot = {session.tenancy.slot: session for session in here}
        stepping = {slot: by_slot[slot] for slot in (*plan.heard, *plan.silent)}
        missing = [s for slot, s in by_slot.items() if s.state is SessionState.TALKING and slot not in stepping]
        for session in missing:
            session.counters.missed += 1
        heard = {slot: session.queues.take_heard() for slot, session in stepping.items()}
        self._last_tick = self._clock()
        try:
            with self._guard.working(HUNG_SECONDS):
                for slot, session in stepping.items():
                    self._apply_wanted(slot, session)
                results = self._stepper.step(heard)
            for slot, session in stepping.items():
                self._deliver(session, results[slot])
        except Exception as error:
            # Whose row was at fault is unknown: all who were in the step end, and `_let_go` wipes their slots.
            self._log(error, "a step failed")
            for session in stepping.values():
                self._fail(session, _told(error, STEP_FAILED))
        finally:
            taken = self._clock() - self._last_tick
            self._recent.append(taken)
            self.step_seconds = median(self._recent)
        self._report(TickReport(taken, len(stepping) + len(missing), len(missing)))

    def _report(self, report: TickReport) -> None:
        """Whoever counts ticks cannot end talks."""
        try:
            self._events.on_tick(report)
        except Exception:
            log.exception("a tick could not be reported")

    def _deliver(self, session: Session, result: StepResult) -> None:
        """To the tenant that was in the step, as long as it still is one."""
        session.stalled = False
        if not self._roster.is_live(session):
            return
        if not result.healthy:
            self._fail(session, NOT_FINITE)
            return
        session.past.stands_at(self._stepper.used(session.tenancy.slot))
        session.deliver(result.pcm, result.text_token, self._stepper.text(result.text_token))

    def _fail(self, session: Session, because: str) -> None:
        """It ends, and nothing of its state is worth keeping, even where it was to be parked."""
        session.end(because)
        session.parks = False

    def _log(self, error: Exception, what: str) -> None:
        log_fault(log, error, what, smaller_plan(self._stepper))

    def _apply_wanted(self, slot: int, session: Session) -> None:
        wanted = session.take_wanted()
        if wanted is not None:
            self._stepper.set_sampling(slot, wanted)
            session.note_applied(wanted)

    def _die(self, sentence: str) -> None:
        if self.failed:
            return
        self.failed = sentence
        self._roster.close(sentence)
        self.errands.close(sentence)
        self._events.on_fatal(sentence)

    # The guard's thread.

    def _tell_stalled(self) -> None:
        """Those who wait see that a step stalls."""
        for session in self._roster.sessions:
            waits = session.state is SessionState.TALKING or (
                session.state is SessionState.PRIMING and session is not self._reading
            )
            if waits and not session.stalled:
                session.stalled = True
                session.notify()


def _told(error: Exception, otherwise: str) -> str:
    """What a talk's visitor reads of an error that ended it."""
    return NO_MEMORY if is_out_of_memory(error) else otherwise
