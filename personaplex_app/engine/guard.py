"""The guard: a thread that counts how long the stepper has been at work, and says when that is too long.

In: when work begins and ends. Out: two calls, from its own thread. Must not know: what the work is, who waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from personaplex_app.audio import FRAME_SECONDS

log = logging.getLogger(__name__)

STALL_SECONDS = 0.65  # work that takes longer is told; the way to the visitor takes some of the second that we promise


class Guard:
    """Watches one worker.

    Args:
        on_stall: called again and again while work takes longer than a moment.
        on_hung: called once when work takes longer than it may; the guard's watch is over then.
    """

    def __init__(self, on_stall: Callable[[], None], on_hung: Callable[[], None], clock: Callable[[], float]) -> None:
        self._on_stall = on_stall
        self._on_hung = on_hung
        self._clock = clock
        self._busy: tuple[float, float] | None = None  # since when, and how long it may
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tick-guard", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """Ends the thread."""
        self._stopping.set()
        self._thread.join(timeout_seconds)

    @property
    def stalled(self) -> bool:
        """Whether the work at hand takes longer than a moment."""
        busy = self._busy
        return busy is not None and self._clock() - busy[0] > STALL_SECONDS

    @contextlib.contextmanager
    def working(self, limit_seconds: float) -> Iterator[None]:
        """While inside, the guard counts."""
        self._busy = (self._clock(), limit_seconds)
        try:
            yield
        finally:
            self._busy = None

    def _watch(self) -> None:
        while not self._stopping.wait(FRAME_SECONDS):
            busy = self._busy
            if busy is None:
                continue
            taken = self._clock() - busy[0]
            if taken > busy[1]:
                log.error("the stepper has not come back for %.0f s", taken)
                self._on_hung()
                return
            if taken > STALL_SECONDS:
                self._tell()

    def _tell(self) -> None:
        """Whoever cannot be told must not end the watch."""
        try:
            self._on_stall()
        except Exception:
            log.exception("a stall could not be told")
