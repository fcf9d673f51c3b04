"""The roster: which session sits in which slot, whose state waits in the parking lot, and the bell that all wait for.

In: sessions that come, end and are let go. Out: who is there. Every method may be called from any thread.
Must not know: steppers, what a tick does, the web.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from personaplex_app.engine.loan import Loan
from personaplex_app.engine.parking import Parked, ParkingLot
from personaplex_app.engine.ports import SavedSlot
from personaplex_app.engine.scheduler import TickPlan, plan_tick
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.engine.slots import SlotState, SlotTable, Tenancy, full_sentence
from personaplex_app.errors import NoCapacity, ServerFault, SessionEnded

LONGEST_WAIT_SECONDS = 0.5
TAKE_BACK_SECONDS = 1.0
STARTED_OVER = "You started the talk over."


class Roster:
    """Sessions, their slots, and the lot.

    A session is here from the moment it has a slot until that is wiped; with its slot goes its state, into the lot or
    nowhere, in one breath: a grant is never in both places, nor for an instant in none. Where a talk is started over,
    the old session and the new one hold the same slot until then, the old one first in the list.
    """

    def __init__(self, table: SlotTable, lot: ParkingLot) -> None:
        self.table = table
        self.lot = lot
        self._wake = threading.Condition()
        self._sessions: list[Session] = []
        self._loan: Loan | None = None
        self._closed = ""

    # Anybody.

    @property
    def sessions(self) -> list[Session]:
        """Those who hold a slot."""
        with self._wake:
            return list(self._sessions)

    @property
    def talking(self) -> int:
        """How many talks are live."""
        return sum(session.state is SessionState.TALKING for session in self.sessions)

    @property
    def free(self) -> int:
        """How many slots a newcomer could have; one that is lent comes back at once."""
        with self._wake:
            return self.table.free + (self._loan is not None)

    def check_capacity(self) -> None:
        """Raises NoCapacity or ServerFault where nobody could be let in now."""
        self.check_open()
        if not self.free:
            raise NoCapacity(full_sentence(self.table.total))

    def check_open(self) -> None:
        """Raises ServerFault once `close` was called: no thread would ever serve a newcomer."""
        if self._closed:
            raise ServerFault(self._closed)

    def seat(self, make: Callable[[SlotTable], Session]) -> Session:
        """Claims a slot and adds its session in one breath; what `make` raises leaves nothing behind.

        A slot that is lent is taken back first, wherever it is: the lowest slots make the cheapest steps.
        Raises ServerFault once `close` was called.
        """
        with self._wake:
            if self._loan is not None:
                self._loan.wanted = True
                self._wake.notify_all()
                self._wake.wait_for(lambda: self._loan is None or self._closed, TAKE_BACK_SECONDS)
            self.check_open()
            session = make(self.table)
            self._sessions.append(session)
            self._wake.notify_all()
        return session

    def start_over(self, session: Session, make: Callable[[Tenancy], Session]) -> Session:
        """Another session in the same slot, which stays taken all the while; the one before is over and worth nothing.

        Both are here until the slot is wiped, and only then is the new one primed. Raises SessionEnded where the one
        before was over already, ServerFault once `close` was called.
        """
        with self._wake:
            self.check_open()
            if not session.end(STARTED_OVER):
                raise SessionEnded(session.ended_because)
            tenancy = self.table.renew(session.tenancy)
            assert tenancy is not None, "who has not ended has a slot"
            fresh = make(tenancy)
            self._sessions.append(fresh)
            self._wake.notify_all()
        return fresh

    def nudge(self) -> None:
        """Something a session needs has changed: a frame came, or it ended."""
        with self._wake:
            self._wake.notify_all()

    def close(self, because: str) -> None:
        """Nobody comes any more, and all who are here end with a sentence."""
        with self._wake:
            self._closed = self._closed or because
            self._wake.notify_all()
        for session in self.sessions:
            session.end(because)

    def seated(self, grant: str) -> Session | None:
        """The session in a slot whose state this grant is worth, live or about to be parked."""
        with self._wake:
            return next((session for session in self._sessions if session.grant == grant and session.resumable), None)

    def can_resume(self, grant: str) -> bool:
        """Whether a grant is worth a talk."""
        with self._wake:
            return not self._closed and (self.seated(grant) is not None or self.lot.look(grant) is not None)

    def forget(self, grant: str) -> None:
        """A grant is worth nothing from now on; a live talk is left alone."""
        with self._wake:
            for session in self._sessions:
                if session.grant == grant and session.state is SessionState.ENDED:
                    session.parks = False
            self.lot.forget(grant)

    def wait_until_gone(self, session: Session, timeout_seconds: float) -> bool:
        """Waits until a session that has ended has left its slot."""
        with self._wake:
            self._wake.notify_all()
            return self._wake.wait_for(lambda: session not in self._sessions, timeout_seconds)

    # The tick thread.

    def lend(self, end: Callable[[Loan], None]) -> Loan:
        """A free slot for an errand; raises NoCapacity where none is free or one is lent already."""
        with self._wake:
            self.check_open()
            if self._loan is not None:
                raise NoCapacity(full_sentence(self.table.total))
            self._loan = Loan(self.table.claim(), end)
        return self._loan

    @property
    def wanted_loan(self) -> Loan | None:
        """What is lent and wanted back."""
        with self._wake:
            return self._loan if self._loan is not None and self._loan.wanted else None

    def end_loan(self, loan: Loan) -> None:
        """Frees a lent slot that was wiped."""
        with self._wake:
            self.table.drain(loan.tenancy)
            self.table.release(loan.tenancy)
            self._loan = None
            self._wake.notify_all()

    def plan(self, now: float, last_tick: float) -> TickPlan:
        """Who steps now, or how long to wait."""
        with self._wake:
            talking = (session for session in self._sessions if session.state is SessionState.TALKING)
            return plan_tick(now, last_tick, [session.queues.view(session.tenancy.slot) for session in talking])

    def wait(self, plan: Callable[[], TickPlan], is_work: Callable[[], bool]) -> None:
        """Sleeps as long as a plan made under the lock says, or until the bell; not at all where there is work."""
        with self._wake:
            current = plan()
            if self._closed or current.ready or is_work():
                return
            seconds = current.wait_seconds
            self._wake.wait(LONGEST_WAIT_SECONDS if seconds is None else min(seconds, LONGEST_WAIT_SECONDS))

    def newcomer(self) -> Session | None:
        """Who is to be primed next: the first whose slot holds nothing of anybody before."""
        with self._wake:
            taken: set[int] = set()
            for session in self._sessions:
                if session.state is SessionState.PRIMING and session.tenancy.slot not in taken:
                    return session
                taken.add(session.tenancy.slot)
        return None

    def go_live(self, session: Session) -> bool:
        """False where the tenant has left meanwhile."""
        with self._wake:
            return session.state is SessionState.PRIMING and self.table.go_live(session.tenancy)

    def is_live(self, session: Session) -> bool:
        """Whether results still belong to it."""
        with self._wake:
            return self.table.state(session.tenancy) is SlotState.LIVE

    def drain(self, session: Session) -> None:
        """Its slot takes no more frames and is not given away yet."""
        with self._wake:
            self.table.drain(session.tenancy)

    def vacate(self, session: Session, saved: SavedSlot | None) -> bool:
        """Frees a slot that was wiped; True where its state is parked now under the session's grant."""
        with self._wake:
            keeps = saved is not None and session.parks  # a grant forgotten meanwhile stays forgotten
            parked = keeps and saved is not None and self.lot.put(session.grant, Parked(saved, session.so_far()))
            session.saved = None
            self.table.release(session.tenancy)
            self._sessions.remove(session)
            self._wake.notify_all()
        return parked
