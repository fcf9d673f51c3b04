"""The porter: carries parked states from the device into the host's memory, and lets those go whose time is over.

In: grants that were just parked. Out: nothing; the lot holds the same talk in another place.
Must not know: slots, sessions, how a state is copied.
"""

from __future__ import annotations

import logging
import queue
import threading

from personaplex_app.engine.parking import ParkingLot
from personaplex_app.out_of_memory import log_fault

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0


class Porter:
    """One thread beside the tick thread, so that no step waits for a copy."""

    def __init__(self, lot: ParkingLot) -> None:
        self._lot = lot
        self._errands: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="porter", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """Ends the thread after the copy that may be under way."""
        self._errands.put(None)
        self._thread.join(timeout_seconds)

    def carry(self, grant: str) -> None:
        """This talk was just parked; never blocks."""
        self._errands.put(grant)

    def _run(self) -> None:
        while (grant := self._next()) is not None:
            if grant:
                self._carry(grant)

    def _next(self) -> str | None:
        """A grant, None at the end, or nothing to carry for now; sleeps soundly while nobody is parked."""
        try:
            return self._errands.get(timeout=SWEEP_SECONDS if self._lot.status.count else None)
        except queue.Empty:
            return ""

    def _carry(self, grant: str) -> None:
        parked = self._lot.look(grant)
        if parked is None:
            return
        try:
            self._lot.swap(grant, parked.saved.to_host())
        except Exception as error:
            log_fault(log, error, "a parked talk could not be brought into host memory and is dropped")
            self._lot.drop(grant)
