"""Reads newcomers' prompts in pieces, in the time that ticks leave over, so that those who talk do not notice.

In: newcomers, when the last tick was, who talks. Out: pieces of work done, a newcomer that is ready.
Must not know: what a piece is, the web. It belongs to the tick thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.session import Session

MARGIN = 1.2  # a piece may take so much longer than the longest of late
FORGET = 0.9  # how much of the longest piece is remembered after another
MOST_DEFERRED_SECONDS = 4 * FRAME_SECONDS  # then a piece is done although it does not fit


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
        self._clock = clock
        self._work: Work | None = None
        self._piece_seconds = 0.0
        self._deferred_since: float | None = None

    def may_work(self, last_tick: float, anybody_talks: bool) -> bool:
        """Whether a piece fits before the next tick is due; when it did not for some ticks it has to."""
        now = self._clock()
        left = last_tick + FRAME_SECONDS - now
        nobody_waits = not anybody_talks or left < -FRAME_SECONDS  # or nothing has come to tick for
        if nobody_waits or left > MARGIN * self._piece_seconds:
            self._deferred_since = None
            return True
        if self._deferred_since is None:
            self._deferred_since = now
        return now - self._deferred_since >= MOST_DEFERRED_SECONDS

    def work_for(self, session: Session) -> bool:
        """One piece; True when the newcomer's slot is ready. Raises what the stepper raises."""
        if self._work is None or self._work.session is not session:
            self._work = Work(session, self._begin(session))
        self._deferred_since = None
        began = self._clock()
        try:
            next(self._work.pieces)
            return False
        except StopIteration:
            self._work = None
            return True
        except BaseException:
            self._work = None
            raise
        finally:
            self._piece_seconds = max(FORGET * self._piece_seconds, self._clock() - began)
