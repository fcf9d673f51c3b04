"""The look-out: four times a second it looks after every talk that is not over.

In: the desk's talks, their tickets and sessions, the time. Out: talks that end or are lost, notices, and a word to all
whose place in the line is another. Must not know: sockets, FastRTC, who asks and who comes back.
It lives on the server's event loop alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping

from personaplex_app.engine.admission import TicketState
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.session import SessionState
from personaplex_app.engine.tick_loop import CLOSING
from personaplex_app.web.line import Line
from personaplex_app.web.talk import Talk

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
SILENT_PATH_SECONDS = 3.0
NOT_CONNECTED = "No sound came from the microphone in time. Check the microphone and press Talk again."
NO_ANSWER = "It was your turn, and nobody answered. Press Talk to queue again."
LAPSED = {"no_answer": ("no_answer", NO_ANSWER), "not_connected": ("lost", NOT_CONNECTED)}


class LookOut:
    """Looks after all talks of a desk, as long as there are any.

    Args:
        talks: those that are not over, by their tickets' secrets; the desk adds and removes them.
        end: ends a talk with a code and a sentence. lose: parks one whose connection is gone.
    """

    def __init__(
        self,
        engine: Engine,
        line: Line,
        talks: Mapping[str, Talk],
        end: Callable[[Talk, str, str], None],
        lose: Callable[[Talk], None],
    ) -> None:
        self._engine = engine
        self._line = line
        self._talks = talks
        self._end = end
        self._lose = lose
        self._looking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """There is a talk to look after; nothing new where it looks already."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_after_all())

    async def close(self) -> None:
        """Looks no more."""
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking

    async def _look_after_all(self) -> None:
        while self._talks:
            try:
                self.look()
            except Exception:
                log.exception("looking after the talks failed")
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Once at every talk, after the tickets; whoever stands elsewhere then is woken."""
        before = self._line.standing()
        self._line.update()
        for talk in list(self._talks.values()):
            self._look_at(talk)
        self._line.tell_moved(before)

    def _look_at(self, talk: Talk) -> None:
        if talk.ticket.state is TicketState.OVER:
            if talk.grant:
                self._engine.forget(talk.grant)  # it came back, and no sound did
            self._end(talk, *LAPSED.get(talk.ticket.over_because, LAPSED["not_connected"]))
            return
        if talk.ticket.state is not TicketState.LIVE:
            if not talk.choices and talk.grant:
                self._engine.keep(talk.grant)
            return
        if talk.session is not None and talk.session.state is SessionState.ENDED and not talk.entering:
            self._ended_by_engine(talk)
        elif not talk.entering and time.monotonic() - talk.last_packet_at > SILENT_PATH_SECONDS:
            self._lose(talk)
        else:
            self._keep_time(talk)

    def _ended_by_engine(self, talk: Talk) -> None:
        assert talk.session is not None
        because = talk.session.ended_because
        code = "draining" if because == CLOSING else "lost" if self._engine.can_resume(talk.grant) else "fault"
        self._end(talk, code, because)

    def _keep_time(self, talk: Talk) -> None:
        talk.count()
        notice = talk.due()
        if notice is None:
            return
        if notice.over:
            if talk.session is not None:
                self._engine.leave(talk.session, notice.sentence)
            self._end(talk, notice.code, notice.sentence)
        else:
            talk.warnings.append(notice)
            talk.changed()
