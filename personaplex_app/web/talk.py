"""One visitor's talk, whichever way its sound travels: ticket, choices, session, clock and counters in one place.

In: sound from a path, new choices. Out: spoken frames, and events for the visitor's socket.
Must not know: FastRTC, WebSockets, who else talks.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.admission import Ticket
from personaplex_app.engine.call_clock import CallClock, CallLimits, Notice
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.ports import LearnedVoice
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.engine.talk_queues import SpokenFrame
from personaplex_app.engine.talk_so_far import Counters
from personaplex_app.errors import PersonaplexError
from personaplex_app.metrics import TalkMeter
from personaplex_app.speech_detector import SpeechDetector
from personaplex_app.web.looking import Looking, look_on
from personaplex_app.web.recordings import Recorded
from personaplex_app.web.talk_health import Outlet

LISTEN_AFTER_SECONDS = 2.0  # somebody who spoke so lately speaks still: the detector can rest
NEXT_CALL = "The new prompt and voice hold from the next call, or once you start over."


class Talk:
    """From the ask to the end.

    Attributes:
        choices: as asked; None for a talk that is resumed. asked: the sampling that was asked for last; guarded: the
            same of the loop guard.
        grant: of the talk to resume.
        path: `webrtc` or `socket` once sound flows.
        looking: who looks on at it, once it has a session. outlet: of the WebRTC connection, once there is one.
        consented: whether its visitor wants it recorded, None where nothing was said. recorded: the recording, while
            there is one or one has just ended; unrecorded: why there is none though it was wanted.
        last_packet_at: when sound last came, on the desk's clock. ended: code and sentence.
    """

    def __init__(self, ticket: Ticket, choices: Choices | None, grant: str = "") -> None:
        self.ticket = ticket
        self.choices = choices
        self.grant = grant
        self.anonymous = False  # asked for without a cookie
        self.path = ""
        self.session: Session | None = None
        self.clock: CallClock | None = None
        self.last_packet_at = 0.0
        self.ended: tuple[str, str] | None = None
        self.notice = ""
        self.admitted_at = 0.0
        self.entering = False
        self.meter: TalkMeter | None = None
        self.looking: Looking | None = None
        self.outlet: Outlet | None = None
        self.consented: bool | None = None
        self.recorded: Recorded | None = None
        self.unrecorded = ""
        self.warnings: deque[Notice] = deque(maxlen=8)
        self.asked: SamplingSettings | None = choices.sampling if choices else None
        self.guarded = choices.loop_guard if choices else True
        self._detector: SpeechDetector | None = None
        self._listeners: set[asyncio.Event] = set()

    def belongs_to(self, visitor: str | None) -> bool:
        """Whether a connection with this visitor's cookie, or with none, may carry it."""
        return self.anonymous if visitor is None else visitor == self.ticket.visitor

    def listen(self) -> asyncio.Event:
        """An event that is set whenever something changed; give it back with `unlisten`."""
        event = asyncio.Event()
        event.set()
        self._listeners.add(event)
        return event

    def unlisten(self, event: asyncio.Event) -> None:
        """No more of that."""
        self._listeners.discard(event)

    def changed(self) -> None:
        """Wakes all who listen; call it on the event loop."""
        for event in self._listeners:
            event.set()

    async def join(self, engine: Engine, limits: CallLimits, voice: LearnedVoice | None = None) -> None:
        """Takes a slot, or the parked talk's; raises the engine's errors.

        Args:
            voice: the visitor's own, where one was chosen.
        """
        asked, notify = self.choices, self._notify()

        def seat() -> Session:
            return engine.resume(self.grant, notify) if asked is None else engine.join(asked, notify, voice)

        session = await self._sit(seat)
        now = time.monotonic()
        self.clock = CallClock(limits, now - session.lasted_seconds, now)
        self.changed()

    async def start_over(self, engine: Engine, choices: Choices, voice: LearnedVoice | None = None) -> None:
        """Goes on with a fresh session in the same slot; raises the engine's errors, and nothing has changed then.

        The clock goes on from the first beginning; whoever begins anew is there, as if something had been said.
        """
        before, notify = self.session, self._notify()
        assert before is not None and self.clock is not None
        await self._sit(lambda: engine.start_over(before, choices, notify, voice))
        self.notice, self._detector = "", None
        self.clock.spoke(time.monotonic())
        self.changed()

    async def _sit(self, seat: Callable[[], Session]) -> Session:
        """Takes the session that comes of it, with those who look on."""

        def look() -> tuple[Session, Looking]:
            session = seat()
            return session, look_on(session)

        session, self.looking = await asyncio.to_thread(look)
        self.session, self.choices = session, session.choices
        self.asked, self.guarded = session.asked
        self.grant = session.grant
        return session

    def _notify(self) -> Callable[[], None]:
        """What a session calls, from any thread, after anything changed."""
        loop = asyncio.get_running_loop()

        def notify() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.changed)

        return notify

    @property
    def between(self) -> bool:
        """Whether it is started over just now: the old session is over, and the new one not here yet."""
        return self.entering and self.session is not None and self.session.state is SessionState.ENDED

    @property
    def talking(self) -> bool:
        """Whether the persona listens and speaks."""
        return self.session is not None and self.session.state is SessionState.TALKING

    @property
    def asked_to_speak(self) -> bool:
        """Whether the visitor was warned of silence, and is still silent."""
        return self.clock is not None and self.clock.warned_of_idle

    def hear(self, engine: Engine, pcm: Pcm) -> None:
        """Sound from the microphone, float32 [n] at 24 kHz; never blocks."""
        now = time.monotonic()
        self.last_packet_at = now
        if self.session is None or self.clock is None or self.ended is not None:
            return
        engine.hear(self.session, pcm)
        if self.clock.silent_seconds(now) > LISTEN_AFTER_SECONDS:
            self._detector = self._detector or SpeechDetector()
            if self._detector.heard(pcm):
                self.clock.spoke(now)
                self.session.note_speech()

    def take_spoken(self) -> SpokenFrame | None:
        """The oldest spoken frame that waits."""
        return self.session.take_spoken() if self.session else None

    def leave_out(self) -> None:
        """A spoken frame that the way to the visitor has no room for; counted."""
        if self.session is not None:
            self.session.queues.note_unsent()

    def set(self, choices: Choices) -> None:
        """Sliders moved during the talk; prompt and voice hold from the next call, and that is said.

        Whoever still waits chooses anew.
        """
        if self.choices is None:
            return
        if self.session is None:
            if not self.entering:
                self.choices, self.asked, self.notice = choices, choices.sampling, ""
                self.guarded = choices.loop_guard
            return
        other = (choices.prompt, choices.voice) != (self.choices.prompt, self.choices.voice)
        self.notice = NEXT_CALL if other else ""
        if choices.sampling != self.asked:
            self.asked = choices.sampling
            self.session.want_sampling(choices.sampling)
        if choices.loop_guard != self.guarded:
            self.guarded = choices.loop_guard
            self.session.want_guard(choices.loop_guard)
        self.changed()

    def refuse_change(self, error: PersonaplexError) -> None:
        """What was moved cannot be used; it is said and changes nothing."""
        self.notice = error.sentence
        self.changed()

    def end(self, code: str, sentence: str) -> None:
        """Over; the first reason stands."""
        if self.ended is None:
            self.ended = (code, sentence)
        self._detector = None
        self.changed()

    def count(self) -> None:
        """What came since the last time goes into the totals."""
        if self.meter is None or self.session is None:
            return
        if not self.session.resumed:
            self.meter.primed(self.session.prime_seconds)
        self.meter.note(self.counters)

    @property
    def counters(self) -> Counters | None:
        """The session's, with what those who look on count."""
        if self.session is None:
            return None
        if self.looking is not None:
            self.session.counters.leaks = self.looking.echo.count
        return self.session.counters

    def due(self) -> Notice | None:
        """What the clock has to say now."""
        return self.clock.check(time.monotonic()) if self.clock and self.ended is None else None
