"""Reads newcomers' prompts in pieces, in the time that ticks leave over, so that those who talk do not notice.

In: newcomers, when the last tick was, who talks. Out: pieces of work done, a newcomer that is ready.
Must not know: what a piece is, the web. It belongs to the tick thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from personaplex_app.engine.pace import Pace
from personaplex_app.engine.session import Session


@dataclass
class Work:
    """One newcomer's prompt, under way."""

    session: Session
    pieces: Iterator[None]


class Primer:
    """Decides when the next piece is done, and does it.

    Args:
        begin: the pieces of a session's prompt. clock: seconds, steady.
    """

    def __init__(self, begin: Callable[[Session], Iterator[None]], clock: Callable[[], float]) -> None:
        self._begin = begin
        self._pace = Pace(clock)
        self._work: Work | None = None

    def may_work(self, last_tick: float, anybody_talks: bool) -> bool:
        """Whether a piece fits before the next tick is due; when it did not for some ticks it has to."""
        return self._pace.fits(last_tick, anybody_talks)

    def work_for(self, session: Session) -> bool:
        """One piece; True when the newcomer's slot is ready. Raises what the stepper raises."""
        if self._work is None or self._work.session is not session:
            self._work = Work(session, self._begin(session))
        try:
            with self._pace.piece():
                next(self._work.pieces)
            return False
        except StopIteration:
            self._work = None
            return True
        except BaseException:
            self._work = None
            raise
