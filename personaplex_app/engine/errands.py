"""Errands: work that needs the tick thread and is no talk's, such as a voice to be encoded, in pieces between ticks.

In: generators from any thread; each `next` is a piece. Out: futures of what they return. Newcomers' prompts go first,
which is the tick loop's to see to. Must not know: what a piece does, steppers, the web.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, TypeVar

from personaplex_app.engine.pace import Pace
from personaplex_app.errors import PersonaplexError, ServerFault
from personaplex_app.out_of_memory import log_fault

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Pieces = Generator[None, None, Result]
FAILED = "The engine failed while it worked on this. Try again; if it happens again, tell the operator."


@dataclass(eq=False)
class _Errand:
    pieces: Pieces[Any]
    done: Future[Any] = field(default_factory=Future)


class Errands:
    """Two lines: what somebody waits for, and what is done in the background when nothing else is.

    Args:
        clock: seconds, steady.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._lines: tuple[deque[_Errand], deque[_Errand]] = (deque(), deque())
        self._paces = (Pace(clock), Pace(clock, math.inf))  # what nobody waits for is never done at a talk's cost
        self._closed = ""

    # Any thread.

    def put(self, pieces: Pieces[Result], background: bool = False) -> Future[Result]:
        """At the end of its line. What the work raises is the future's; a cancelled future's work is dropped.

        Raises ServerFault once `close` was called.
        """
        with self._lock:
            if self._closed:
                raise ServerFault(self._closed)
            errand = _Errand(pieces)
            self._lines[background].append(errand)
        return errand.done

    def close(self, because: str) -> None:
        """Nothing more is taken, and all that waits fails with a sentence."""
        with self._lock:
            self._closed = self._closed or because
            left = [errand for line in self._lines for errand in line]
            for line in self._lines:
                line.clear()
        for errand in left:
            _settle(errand, ServerFault(because))

    # The tick thread.

    def may_work(self, last_tick: float, anybody_talks: bool) -> bool:
        """Whether there is a piece, and room for it before the next tick."""
        kind, errand = self._first()
        return errand is not None and self._paces[kind].fits(last_tick, anybody_talks)

    def work(self) -> None:
        """One piece of the first errand; whatever comes of it goes to the errand's future."""
        kind, errand = self._first()
        if errand is None:
            return
        try:
            with self._paces[kind].piece():
                next(errand.pieces)
        except StopIteration as end:
            self._drop(kind, errand)
            _settle(errand, end.value)
        except Exception as error:
            self._drop(kind, errand)
            _settle(errand, _told(error))

    def _first(self) -> tuple[int, _Errand | None]:
        """The first errand of the first line that has one; those that nobody wants any more are dropped on the way."""
        for kind, line in enumerate(self._lines):
            with self._lock:
                unwanted = []
                while line and line[0].done.cancelled():
                    unwanted.append(line.popleft())
                first = line[0] if line else None
            for errand in unwanted:
                _end(errand.pieces)
            if first is not None:
                return kind, first
        return 0, None

    def _drop(self, kind: int, errand: _Errand) -> None:
        with self._lock, contextlib.suppress(ValueError):  # it may have been closed meanwhile
            self._lines[kind].remove(errand)


def _end(pieces: Pieces[Any]) -> None:
    try:
        pieces.close()
    except Exception:
        log.exception("an errand that was dropped could not be ended")


def _settle(errand: _Errand, outcome: object) -> None:
    """Cancelled or closed in this very moment, it stays so."""
    with contextlib.suppress(InvalidStateError):
        if isinstance(outcome, Exception):
            errand.done.set_exception(outcome)
        else:
            errand.done.set_result(outcome)


def _told(error: Exception) -> PersonaplexError:
    """What is told of an error; the operator finds more in the log."""
    if isinstance(error, PersonaplexError):
        return error
    log_fault(log, error, "an errand failed")
    return ServerFault(FAILED)
