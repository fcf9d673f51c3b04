"""The front desk: brings visitors, tickets and the engine together, and looks after every talk four times a second.

In: asks, answers, stops, paths that open and fall silent. Out: talks, and how many wait.
Must not know: WebSockets, FastRTC, the page. It lives on the server's event loop alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass

from personaplex_app.controls import Choices
from personaplex_app.engine.admission import ALREADY_TALKING, Admission, Limits, TicketState
from personaplex_app.engine.call_clock import CallLimits, Notice
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.engine.ports import LearnedVoice
from personaplex_app.engine.session import SessionState
from personaplex_app.engine.tick_loop import CLOSING
from personaplex_app.errors import NoCapacity, PersonaplexError, ServerFault, SessionEnded
from personaplex_app.metrics import Metrics
from personaplex_app.voices import is_own_voice
from personaplex_app.web.call_view import line_words
from personaplex_app.web.own_voices import OwnVoices
from personaplex_app.web.recorder import Recorder
from personaplex_app.web.recordings import Recordings
from personaplex_app.web.talk import Talk

log = logging.getLogger(__name__)

SOCKET = "socket"  # the path that a talk can move to while it lasts
LOOK_SECONDS = 0.25
SILENT_PATH_SECONDS = 3.0
MOST_RETURNS = 5  # by one grant without ever a sound: who comes back is first in the line, but not for ever
LOST = "The connection was lost."
NOT_CONNECTED = "No sound came from the microphone in time. Check the microphone and press Talk again."
TOO_LATE = "That talk cannot be taken up again: too much time has passed."
UNEXPECTED = "Something failed on the server and the talk was ended. Start again."
NO_ANSWER = "It was your turn, and nobody answered. Press Talk to queue again."
LAPSED = {"no_answer": ("no_answer", NO_ANSWER), "not_connected": ("lost", NOT_CONNECTED)}


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
        self.telling = 0  # clients who are being told of their talk, until they know its end
        self._joining = 0
        self._returns: dict[str, int] = {}
        self._draining = ""
        self._look: asyncio.Task[None] | None = None

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
        self._note_return(grant)
        if not self.engine.can_resume(grant):
            self.metrics.resumed("grant_unknown")
            raise SessionEnded(TOO_LATE, code="grant_unknown")
        self.engine.keep(grant)
        for talk in list(self._talks.values()):  # its old connection may not have noticed yet
            if talk.grant == grant:
                self.lose(talk)
        return self._welcome(Talk(self._admission.come_back(visitor), None, grant))

    def _note_return(self, grant: str) -> None:
        known = {other: count for other, count in self._returns.items() if self.engine.can_resume(other)}
        known[grant] = known.get(grant, 0) + 1
        self._returns = known
        if known[grant] > MOST_RETURNS:
            self.engine.forget(grant)

    def _check_open(self) -> None:
        if self._draining:
            raise NoCapacity(self._draining, code="draining")
        if self.engine.status.failed:
            raise ServerFault(self.engine.status.failed)

    def _welcome(self, talk: Talk) -> Talk:
        talk.admitted_at = time.monotonic()
        self._talks[talk.ticket.secret] = talk
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_after_all())
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
            voice = self.own_voice(talk.ticket.visitor, talk.choices.voice) if talk.choices else None
            await talk.join(self.engine, self.call_limits, voice)
        finally:
            self._joining -= 1
            talk.entering = False
            talk.last_packet_at = time.monotonic()  # nobody listened until now

    def own_voice(self, visitor: str, voice: str) -> LearnedVoice | None:
        """Looked up when the talk begins: what was deleted or is too old by then is no voice any more."""
        return self.own_voices.find(visitor, voice).learned if is_own_voice(voice) else None

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
        self._admission.update()
        self._tell_line()

    def drain(self, sentence: str, seconds: float) -> None:
        """Lets nobody in any more; those who wait are sent away, those who talk are told how long they have."""
        self._draining = sentence
        for talk in list(self._talks.values()):
            if talk.ticket.state is TicketState.LIVE:
                talk.warnings.append(Notice("draining", sentence, seconds))
                talk.changed()
            else:
                self._end(talk, "draining", sentence)

    # The look-out.

    async def _look_after_all(self) -> None:
        while self._talks:
            try:
                self._look_once()
            except Exception:
                log.exception("looking after the talks failed")
            await asyncio.sleep(LOOK_SECONDS)

    def _look_once(self) -> None:
        before = self._standing()
        self._admission.update()
        for talk in list(self._talks.values()):
            self._look_at(talk)
        after = self._standing()
        for talk, standing in before.items():
            if standing != after.get(talk):
                talk.changed()

    def _standing(self) -> dict[Talk, tuple[TicketState, int]]:
        """Every talk's ticket at a glance, and its place in the line."""
        places = self._admission.places()
        return {talk: (talk.ticket.state, places.get(talk.ticket, 0)) for talk in self._talks.values()}

    def _look_at(self, talk: Talk) -> None:
        if talk.ticket.state is TicketState.OVER:
            if talk.grant:
                self.engine.forget(talk.grant)  # it came back, and no sound did
            self._end(talk, *LAPSED.get(talk.ticket.over_because, LAPSED["not_connected"]))
            return
        if talk.ticket.state is not TicketState.LIVE:
            if not talk.choices and talk.grant:
                self.engine.keep(talk.grant)
            return
        if talk.session is not None and talk.session.state is SessionState.ENDED and not talk.entering:
            self._ended_by_engine(talk)
        elif not talk.entering and time.monotonic() - talk.last_packet_at > SILENT_PATH_SECONDS:
            self.lose(talk)
        else:
            self._keep_time(talk)

    def _ended_by_engine(self, talk: Talk) -> None:
        assert talk.session is not None
        because = talk.session.ended_because
        code = "draining" if because == CLOSING else "lost" if self.engine.can_resume(talk.grant) else "fault"
        self._end(talk, code, because)

    def _keep_time(self, talk: Talk) -> None:
        talk.count()
        notice = talk.due()
        if notice is None:
            return
        if notice.over:
            if talk.session is not None:
                self.engine.leave(talk.session, notice.sentence)
            self._end(talk, notice.code, notice.sentence)
        else:
            talk.warnings.append(notice)
            talk.changed()

    def place(self, talk: Talk) -> int:
        """1 for the first of the line, 0 outside of it."""
        return self._admission.place(talk.ticket)

    def wait_message(self, talk: Talk) -> dict[str, object]:
        """Place, length of the line, estimate and a sentence."""
        places = self._admission.places()
        place, seconds = places.get(talk.ticket, 0), self._admission.estimate_seconds(talk.ticket)
        sentence = ALREADY_TALKING if self._admission.already_talking(talk.ticket) else line_words(place, seconds)
        return {"place": place, "of": len(places), "estimate_seconds": round(seconds), "sentence": sentence}

    def _tell_line(self) -> None:
        for talk in self._talks.values():
            if talk.ticket.state is not TicketState.LIVE:
                talk.changed()

    async def close(self) -> None:
        """Stops looking after talks; for tests and the server's end."""
        if self._look is not None:
            self._look.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._look
