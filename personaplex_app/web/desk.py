"""The front desk: brings visitors, tickets and the engine together, from a talk's ask to its end.

In: asks, answers, stops, paths that open and are lost. Out: talks, and how many wait.
Must not know: WebSockets, FastRTC, the page. It lives on the server's event loop alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from personaplex_app.controls import Choices
from personaplex_app.engine.admission import Admission, Limits, TicketState
from personaplex_app.engine.call_clock import CallLimits, Notice
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.engine.session import SessionState
from personaplex_app.errors import NoCapacity, PersonaplexError, ServerFault, SessionEnded
from personaplex_app.metrics import Metrics
from personaplex_app.web.line import Line
from personaplex_app.web.look_out import LookOut
from personaplex_app.web.own_voices import OwnVoices
from personaplex_app.web.recorder import Recorder
from personaplex_app.web.recordings import Recordings
from personaplex_app.web.returns import Returns
from personaplex_app.web.talk import Talk

SOCKET = "socket"  # the path that a talk can move to while it lasts
LOST = "The connection was lost."
TOO_LATE = "That talk cannot be taken up again: too much time has passed."
UNEXPECTED = "Something failed on the server and the talk was ended. Start again."


@dataclass(frozen=True)
class DeskStatus:
    """What anybody may know: slots for newcomers, who waits, and whether newcomers are let in."""

    free: int
    waiting: int
    talking: int
    draining: str


class FrontDesk:
    """All talks of one server.

    Args:
        limits: of tickets and the line. call_limits: of one talk. own_voices: those that visitors brought.
        recordings: those that visitors asked for.
    """

    def __init__(
        self,
        engine: Engine,
        metrics: Metrics,
        limits: Limits | None = None,
        call_limits: CallLimits | None = None,
        own_voices: OwnVoices | None = None,
        recordings: Recordings | None = None,
    ) -> None:
        self.engine = engine
        self.metrics = metrics
        self.call_limits = call_limits or CallLimits()
        self.own_voices = OwnVoices() if own_voices is None else own_voices
        self.recordings = Recordings() if recordings is None else recordings
        self.recorder = Recorder(self.recordings)
        self._admission = Admission(engine.status.slots, self._free, time.monotonic, limits)
        self._talks: dict[str, Talk] = {}
        self.line = Line(self._admission, self._talks)
        self.telling = 0  # clients who are being told of their talk, until they know its end
        self._joining = 0
        self._returns = Returns(engine)
        self._draining = ""
        self._look_out = LookOut(engine, self.line, self._talks, self._end, self.lose)

    @property
    def limits(self) -> Limits:
        return self._admission.limits

    @property
    def status(self) -> DeskStatus:
        """The desk at a glance."""
        talking = sum(talk.ticket.state is TicketState.LIVE for talk in self._talks.values())
        free = max(0, self._admission.available)
        return DeskStatus(free, len(self._admission.waiting), talking, self._draining)

    def _free(self) -> int:
        """Slots that nobody holds; who is being joined takes one in a moment."""
        return self.engine.status.free - self._joining

    def ask(self, visitor: str, address: str, choices: Choices) -> Talk:
        """A new talk, admitted or in the line; raises InvalidInput, NoCapacity or ServerFault in words."""
        self._check_open()
        self.own_voices.check(visitor, choices.voice)
        return self._welcome(Talk(self._admission.ask(visitor, address), choices))

    def come_back(self, visitor: str, grant: str) -> Talk:
        """The talk that was cut off, admitted or first in the line; raises SessionEnded for a grant that is none."""
        self._check_open()
        if not self._returns.note(grant):
            self.metrics.resumed("grant_unknown")
            raise SessionEnded(TOO_LATE, code="grant_unknown")
        self.engine.keep(grant)
        for talk in list(self._talks.values()):  # its old connection may not have noticed yet
            if talk.grant == grant:
                self.lose(talk)
        return self._welcome(Talk(self._admission.come_back(visitor), None, grant))

    def _check_open(self) -> None:
        if self._draining:
            raise NoCapacity(self._draining, code="draining")
        if self.engine.status.failed:
            raise ServerFault(self.engine.status.failed)

    def _welcome(self, talk: Talk) -> Talk:
        talk.admitted_at = time.monotonic()
        self._talks[talk.ticket.secret] = talk
        self._look_out.begin()
        return talk

    def talk_with(self, secret: str) -> Talk | None:
        """The talk of a ticket, if it is not over."""
        return self._talks.get(secret)

    def expected(self, visitor: str | None) -> int:
        """How many tickets of this visitor, or of those without a cookie (None), have yet to connect."""
        return sum(
            talk.ticket.state is TicketState.ADMITTED and talk.belongs_to(visitor) for talk in self._talks.values()
        )

    def answer(self, talk: Talk) -> None:
        """Its turn, and it is there."""
        self._admission.answer(talk.ticket)
        talk.admitted_at = time.monotonic()
        talk.changed()

    async def enter(self, talk: Talk, path: str) -> None:
        """Sound flows on a path: takes the slot. A talk that has one already, or soon, moves to the socket alone.

        Raises NoCapacity and what the engine raises; where others came first the talk is first in the line.
        """
        if talk.session is not None or talk.entering:
            if path != SOCKET:
                raise NoCapacity("The sound of this talk travels already.", code="no_ticket")
            self._take_path(talk, path)
            return
        self._admission.enter(talk.ticket)
        self._take_path(talk, path)
        returning = talk.choices is None
        try:
            await self._join(talk)
        except PersonaplexError as error:
            if returning:
                self.metrics.resumed(error.code)
            self._end(talk, error.code, error.sentence)
            raise
        except Exception:
            self._end(talk, "fault", UNEXPECTED)
            raise
        assert talk.session is not None
        if talk.ended is None:
            self.recorder.joined(talk)
        seconds = time.monotonic() - talk.admitted_at
        talk.meter = self.metrics.connected(talk.path, seconds, talk.counters if returning else None)
        if returning:
            self.metrics.resumed("resumed")
        if talk.ended is not None:  # left while it joined
            self.engine.leave(talk.session, talk.ended[1], park=talk.ended[0] == "lost")
            talk.meter.ended(talk.ended[0])

    async def _join(self, talk: Talk) -> None:
        talk.entering = True
        self._joining += 1
        try:
            voice = self.own_voices.learned(talk.ticket.visitor, talk.choices.voice) if talk.choices else None
            await talk.join(self.engine, self.call_limits, voice)
        finally:
            self._joining -= 1
            talk.entering = False
            talk.last_packet_at = time.monotonic()  # nobody listened until now

    def count_start(self, visitor: str, address: str) -> None:
        """A talk that is started over counts as a start; raises NoCapacity where there were too many."""
        self._admission.start_over(visitor, address)

    def _take_path(self, talk: Talk, path: str) -> None:
        talk.path = path
        talk.last_packet_at = time.monotonic()
        talk.changed()

    def stop(self, talk: Talk) -> None:
        """The visitor ends it; nothing of it is kept."""
        if talk.session is not None:
            self.engine.leave(talk.session, YOU_STOPPED)
        elif talk.grant:
            self.engine.forget(talk.grant)
        self._end(talk, "stopped", YOU_STOPPED)

    def lose(self, talk: Talk, sentence: str = LOST) -> None:
        """The connection is gone; the talk is parked for a while."""
        if talk.session is not None and talk.session.state is not SessionState.ENDED:
            self.engine.leave(talk.session, sentence, park=True)
        self._end(talk, "lost", sentence)

    def fail(self, talk: Talk, sentence: str) -> None:
        """Something of ours failed; nothing of it is kept."""
        if talk.session is not None:
            self.engine.leave(talk.session, sentence)
        self._end(talk, "fault", sentence)

    def _end(self, talk: Talk, code: str, sentence: str) -> None:
        if talk.ended is not None:
            return
        self._admission.leave(talk.ticket)
        self._talks.pop(talk.ticket.secret, None)
        talk.end(code, sentence)
        self.recorder.over(talk, may_come_back=code == "lost")
        talk.count()
        if talk.meter is not None:
            talk.meter.ended(code)
        self.line.update()
        self.line.tell()

    def drain(self, sentence: str, seconds: float) -> None:
        """Lets nobody in any more; those who wait are sent away, those who talk are told how long they have."""
        self._draining = sentence
        for talk in list(self._talks.values()):
            if talk.ticket.state is TicketState.LIVE:
                talk.warnings.append(Notice("draining", sentence, seconds))
                talk.changed()
            else:
                self._end(talk, "draining", sentence)

    def place(self, talk: Talk) -> int:
        """1 for the first of the line, 0 outside of it."""
        return self._admission.place(talk.ticket)

    async def close(self) -> None:
        """Stops looking after talks; for tests and the server's end."""
        await self._look_out.close()
