"""What a talk's client is told: its place in the line, its admission, words, views, warnings and the end; and the
sound where that travels on the socket.

In: one talk, its wire. Out: messages as docs/protocol.md tells them. Must not know: what the client says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from starlette.websockets import WebSocketDisconnect

from personaplex_app.audio import int16_from_float
from personaplex_app.engine.admission import TicketState
from personaplex_app.engine.parking import GRANT_SECONDS
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.engine.talk_queues import SpokenFrame
from personaplex_app.records.xray import xray
from personaplex_app.web.call_view import standing, talk_view
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.talk import Talk
from personaplex_app.web.talk_health import health_of
from personaplex_app.web.talk_news import TalkNews
from personaplex_app.web.turn import IceMinter
from personaplex_app.web.wire import Wire

log = logging.getLogger(__name__)

REPEAT_SECONDS = 15.0
VIEW_SECONDS = 0.08
HEALTH_SECONDS = 1.0
STARTED_OVER = "The talk begins anew."
MOST_UNHEARD_FRAMES = 25  # two seconds; a client that tells does so twice a second


class Teller:
    """Tells one talk's client what changed, and sends it the sound where that travels here."""

    def __init__(self, wire: Wire, desk: FrontDesk, minter: IceMinter, talk: Talk) -> None:
        self._wire = wire
        self._desk = desk
        self._minter = minter
        self._talk = talk
        self._session: Session | None = None
        self._told_state: TicketState | None = None
        self._told: dict[str, Any] = {}
        self._told_at = 0.0
        self._news = TalkNews()
        self._health_at = float("-inf")
        self._asked_to_speak = False
        self._recording: dict[str, Any] = {}
        self._sent = 0
        self._heard: int | None = None  # a client that never tells is trusted to keep up

    def heard(self, pieces: int) -> None:
        """The client has had so many pieces of sound."""
        self._heard = min(pieces, self._sent)

    async def run(self) -> None:
        """Until the talk is over or the socket gone."""
        changed = self._talk.listen()
        self._desk.telling += 1
        try:
            while True:
                changed.clear()
                await self._tell_ticket()
                await self._tell_talk()
                await self._tell_recording()
                if self._talk.ended is not None:
                    await self._tell_last_words()
                    await self._tell_end(*self._talk.ended)
                    return
                await self._wait(changed)
        except WebSocketDisconnect:
            log.debug("the socket went while it was told something", exc_info=True)
        except Exception:
            log.exception("telling a client failed")
            self._desk.lose(self._talk)
            if self._talk.ended is not None:
                with contextlib.suppress(WebSocketDisconnect):
                    await self._tell_end(*self._talk.ended)
        finally:
            self._desk.telling -= 1
            self._talk.unlisten(changed)

    async def _wait(self, changed: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(VIEW_SECONDS if self._talk.session else 1.0):
                await changed.wait()

    async def _tell_ticket(self) -> None:
        state = self._talk.ticket.state
        fresh = state is not self._told_state
        self._told_state = state
        if state is TicketState.WAITING:
            await self._tell_place()
        elif state is TicketState.CALLED and fresh:
            seconds = self._desk.limits.turn_seconds
            sentence = f"It is your turn. Answer within {seconds:.0f} s."
            await self._wire.send("turn", seconds=seconds, sentence=sentence)
        elif state is TicketState.ADMITTED and fresh:
            servers = await self._minter.browser()
            seconds = self._desk.limits.connect_seconds
            secret = self._talk.ticket.secret
            await self._wire.send("admitted", ticket=secret, ice_servers=servers, connect_seconds=seconds)

    async def _tell_place(self) -> None:
        message = self._desk.line.message(self._talk)
        now = time.monotonic()
        standing = {"place": message["place"], "of": message["of"]}  # the estimate alone is no news
        if standing == self._told and now - self._told_at < REPEAT_SECONDS:
            return
        self._told, self._told_at = standing, now
        await self._wire.send("waiting", **message)

    async def _tell_talk(self) -> None:
        session, looking = self._talk.session, self._talk.looking
        if session is None or self._talk.between:
            return
        if session is not self._session:
            await self._meet(session)
        while self._talk.warnings:
            notice = self._talk.warnings.popleft()
            await self._wire.send("warning", code=notice.code, seconds=round(notice.seconds), sentence=notice.sentence)
        if self._talk.path == "socket":
            while (frame := self._talk.take_spoken()) is not None:
                await self._send_sound(frame)
        for kind, fields in self._news.of(session, looking):
            await self._wire.send(kind, **fields)
        if self._asked_to_speak and not self._talk.asked_to_speak:
            await self._wire.send("warning", code="idle", seconds=0, sentence="")
            self._told = {}  # for those who show both in one place
        self._asked_to_speak = self._talk.asked_to_speak
        if session is self._talk.session:  # else it was started over while it was told the last of the talk before
            await self._tell_view(session)
            await self._tell_health(session)

    async def _tell_view(self, session: Session) -> None:
        now = time.monotonic()
        view = talk_view(session, self._talk.path, self._talk.notice)
        news = standing(view)
        if news != self._told and (now - self._told_at >= VIEW_SECONDS or view["state"] != self._told.get("state")):
            self._told, self._told_at = news, now
            if self._talk.ended is None:
                await self._wire.send("talk", **view)

    async def _tell_health(self, session: Session) -> None:
        now = time.monotonic()
        if session.state is SessionState.TALKING and now - self._health_at >= HEALTH_SECONDS:
            self._health_at = now
            outlet = self._talk.outlet if self._talk.path == "webrtc" else None
            await self._wire.send("health", **health_of(session, self._desk.engine.step_ms, outlet))

    async def _meet(self, session: Session) -> None:
        """A session that the client knows nothing of; where it is not the first, the talk was started over."""
        before, self._session = self._session, session
        if before is not None:
            self._told, self._news = {}, TalkNews()
            await self._wire.send("started_over", sentence=STARTED_OVER)

    async def _send_sound(self, frame: SpokenFrame) -> None:
        """A line too slow for sound keeps it in buffers that nobody can shorten: what would lie there is left out."""
        if self._heard is not None and self._sent - self._heard >= MOST_UNHEARD_FRAMES:
            self._talk.leave_out()
            return
        self._sent += 1
        await self._wire.send_bytes(int16_from_float(frame.pcm).astype("<i2").tobytes())

    async def _tell_recording(self) -> None:
        """Whether the talk is recorded, at each change and every second of it."""
        view = self._desk.recorder.view(self._talk)
        if view is None or _by_seconds(view) == _by_seconds(self._recording):
            return
        self._recording = view
        await self._wire.send("recording", **view)

    async def _tell_xray(self) -> None:
        """How both talked with each other, where they talked long enough; the end is told whatever becomes of it."""
        session, looking = self._talk.session, self._talk.looking
        try:
            found = xray(looking.turns, session.transcript.remarks) if session and looking else None
        except Exception:
            log.exception("the X-ray of a talk failed")
            return
        if found is not None:
            await self._wire.send("xray", **found)

    async def _tell_last_words(self) -> None:
        """What came while the last was sent; whoever stopped in the midst of a step hears its word too."""
        if self._talk.session is not None and self._talk.ended and self._talk.ended[0] == "stopped":
            await asyncio.sleep(VIEW_SECONDS)
        await self._tell_talk()
        await self._tell_recording()

    async def _tell_end(self, code: str, sentence: str) -> None:
        if code == "lost" and self._talk.grant and self._desk.engine.can_resume(self._talk.grant):
            await self._wire.send("lost", grant=self._talk.grant, seconds=round(GRANT_SECONDS), sentence=sentence)
        else:
            await self._tell_xray()
            await self._wire.send("ended", code=code, sentence=sentence)


def _by_seconds(view: dict[str, Any]) -> dict[str, Any]:
    """A view of a recording without what is no news."""
    seconds = int(view["seconds"]) if view.get("on") else 0
    return {**view, "seconds": seconds, "expires_seconds": view.get("expires_seconds") is not None}
