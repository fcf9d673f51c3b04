"""Coming back: whoever names a grant gets the talk behind it, parked or still live, in any free slot.

In: grants. Out: sessions that go on where earlier ones stopped. Blocks; any thread but the tick thread may call.
Must not know: the tick thread, how a state is copied, the web.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from personaplex_app.engine.parking import Parked
from personaplex_app.engine.ports import SavedSlot
from personaplex_app.engine.roster import Roster
from personaplex_app.engine.session import Session
from personaplex_app.engine.slots import SlotTable, full_sentence
from personaplex_app.errors import NoCapacity, ServerFault, SessionEnded
from personaplex_app.out_of_memory import log_fault

log = logging.getLogger(__name__)

TAKEN_OVER = "The talk went on over another connection."
GRANT_UNKNOWN = "That talk is over and cannot be taken up again. Start a new one."
NOT_YET_FREE = "The talk is still busy with its last step. Try again in a moment."
NOT_BROUGHT_BACK = "The talk could not be brought back into the engine. Try again in a moment, or start a new one."
TAKE_OVER_SECONDS = 1.0


class Comeback:
    """Resumes talks of one roster and its lot."""

    def __init__(self, roster: Roster, clock: Callable[[], float]) -> None:
        self._roster = roster
        self._lot = roster.lot
        self._clock = clock

    def resume(self, grant: str, notify: Callable[[], None]) -> Session:
        """See `Engine.resume`."""
        self._roster.check_open()
        self._take_over(grant)
        parked = self._lot.look(grant)
        if parked is None:
            raise _unknown()
        self._roster.check_capacity()
        self._lot.keep(grant)  # it does not run out on the way
        saved = self._brought_back(parked)
        return self._roster.seat(lambda table: self._continued(table, grant, saved, notify))

    def _take_over(self, grant: str) -> None:
        """Whoever sits in a slot under this grant makes room and is parked."""
        session = self._roster.seated(grant)
        if session is None:
            return
        session.end(TAKEN_OVER, park=True)
        if not self._roster.wait_until_gone(session, TAKE_OVER_SECONDS):
            raise NoCapacity(NOT_YET_FREE)

    def _brought_back(self, parked: Parked) -> SavedSlot:
        try:
            return parked.saved.to_device()
        except Exception as error:
            log_fault(log, error, "a parked talk could not be brought back")
            raise ServerFault(NOT_BROUGHT_BACK) from error

    def _continued(self, table: SlotTable, grant: str, saved: SavedSlot, notify: Callable[[], None]) -> Session:
        """Under the roster's lock: a grant is spent only where a slot is free, and once."""
        if not table.free:
            raise NoCapacity(full_sentence(table.total))
        parked = self._lot.take(grant)
        if parked is None:
            raise _unknown()
        return Session.continued(parked.so_far, saved, table.claim(), notify, self._clock)


def _unknown() -> SessionEnded:
    return SessionEnded(GRANT_UNKNOWN, code="grant_unknown")
