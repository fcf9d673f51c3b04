"""The talk's socket: controls, words and status of every talk, and the sound of those that WebRTC cannot carry.

In: an opened WebSocket, the front desk. Out: messages as docs/protocol.md tells them. When the socket goes, the talk is
parked; a client that says `stop` first leaves nothing behind. Must not know: FastRTC, the page.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from personaplex_app.audio import FRAME_SAMPLES, SAMPLE_RATE_HZ, float_from_int16
from personaplex_app.controls import SamplingSettings
from personaplex_app.errors import InvalidInput, PersonaplexError, ServerFault
from personaplex_app.web import protocol
from personaplex_app.web.desk import UNEXPECTED, FrontDesk
from personaplex_app.web.form import LOOP_GUARD, read_choices
from personaplex_app.web.path_check import PathChecks
from personaplex_app.web.starting_over import start_over
from personaplex_app.web.talk import Talk
from personaplex_app.web.teller import Teller
from personaplex_app.web.turn import IceMinter
from personaplex_app.web.visitors import fresh_visitor
from personaplex_app.web.wire import GONE, Wire

log = logging.getLogger(__name__)

UNUSED_SECONDS = 60.0
MOST_BAD_MESSAGES = 20
POLICY_VIOLATION = 1008
NO_TALK = "There is no talk on this socket yet; ask first."


class TalkSocket:
    """One client's socket, from accept to close.

    Args:
        visitor, address: who asks, as the door knows them; None for one without a cookie.
        sampling: what holds where an ask names none.
    """

    def __init__(
        self,
        socket: WebSocket,
        desk: FrontDesk,
        minter: IceMinter,
        checks: PathChecks,
        visitor: str | None,
        address: str,
        sampling: SamplingSettings,
    ) -> None:
        self._socket = socket
        self._wire = Wire(socket)
        self._desk = desk
        self._minter = minter
        self._checks = checks
        self._anonymous = visitor is None
        self._visitor, self._address = visitor or fresh_visitor(), address
        self._sampling = sampling
        self._talk: Talk | None = None
        self._tells: Teller | None = None
        self._teller: asyncio.Task[None] | None = None
        self._bad_messages = 0
        self._used_at = time.monotonic()

    async def run(self) -> None:
        """Serves the client until it goes."""
        try:
            await self._greet()
            while self._bad_messages < MOST_BAD_MESSAGES:
                await self._take(await self._next())
            await self._socket.close(POLICY_VIOLATION, "too many bad messages")
        except TimeoutError:
            await self._socket.close(1000, "unused")
        except WebSocketDisconnect:
            pass
        finally:
            await self._gone()

    async def _greet(self) -> None:
        await self._wire.send(
            "hello",
            protocol=protocol.VERSION,
            sample_rate_hz=SAMPLE_RATE_HZ,
            frame_samples=FRAME_SAMPLES,
            slots=self._desk.engine.status.slots,
            free=self._desk.status.free,
        )

    async def _next(self) -> dict[str, Any]:
        """The next message; raises TimeoutError once there has been no talk and no ticket for too long."""
        while self._in_use():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UNUSED_SECONDS / 4):
                    message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    raise WebSocketDisconnect(message.get("code", GONE))
                return dict(message)
        raise TimeoutError

    def _in_use(self) -> bool:
        now = time.monotonic()
        if self._busy:
            self._used_at = now
        return now - self._used_at < UNUSED_SECONDS

    @property
    def _busy(self) -> bool:
        return self._talk is not None and self._talk.ended is None

    async def _gone(self) -> None:
        if self._teller is not None:
            self._teller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._teller
        if self._talk is not None and self._busy:
            self._desk.lose(self._talk)

    async def _take(self, message: dict[str, Any]) -> None:
        """One message; what cannot be used is answered in words."""
        try:
            if message.get("bytes") is not None:
                self._hear(message["bytes"])
            else:
                await self._obey(protocol.parse(message.get("text") or ""))
        except PersonaplexError as error:
            await self._refuse(error)
        except WebSocketDisconnect:
            raise
        except Exception:
            log.exception("a client's message failed")
            if self._talk is not None and self._busy:
                self._desk.fail(self._talk, UNEXPECTED)
            await self._refuse(ServerFault(UNEXPECTED))

    async def _refuse(self, error: PersonaplexError) -> None:
        self._bad_messages += error.code == "bad_message"
        self._desk.metrics.refused(error.code)
        await self._wire.send("refused", code=error.code, sentence=error.sentence)

    def _hear(self, sound: bytes) -> None:
        if not sound or len(sound) % 2 or len(sound) > protocol.MOST_SOUND_BYTES:
            sentence = f"Sound comes as PCM16, an even number of bytes, {protocol.MOST_SOUND_BYTES} at most."
            raise InvalidInput(sentence, code="bad_message")
        if self._talk is None or self._talk.path != "socket":
            return  # said before the talk, or after its end: nobody listens
        self._talk.hear(self._desk.engine, float_from_int16(np.frombuffer(sound, dtype="<i2")))

    async def _obey(self, message: protocol.Message) -> None:
        match message:
            case protocol.Ping():
                await self._answer_ping(message)
            case protocol.Ask(choices):
                self._check_unused()
                checked = read_choices(choices, self._sampling)
                self._begin(self._desk.ask(self._visitor, self._address, checked))
            case protocol.Resume(grant):
                self._check_unused()
                self._begin(self._desk.come_back(self._visitor, grant))
            case protocol.Check(sdp):
                await self._check_path(sdp)
            case protocol.Stop():
                self._stop()
            case _:
                await self._obey_in_talk(self._open_talk(), message)

    async def _obey_in_talk(self, talk: Talk, message: protocol.Message) -> None:
        match message:
            case protocol.Answer():
                self._desk.answer(talk)
            case protocol.Sound():
                await self._desk.enter(talk, "socket")
            case protocol.Set(choices):
                self._set(talk, choices)
            case protocol.StartOver(choices):
                await start_over(self._desk, talk, self._address, read_choices(choices, self._sampling))
            case protocol.Record(True):
                self._desk.recorder.consent(talk)
            case protocol.Record():
                self._desk.recorder.withdraw(talk)

    async def _answer_ping(self, ping: protocol.Ping) -> None:
        if ping.heard is not None and self._tells is not None:
            self._tells.heard(ping.heard)
        await self._wire.send("pong", at=ping.at, step_ms=round(self._desk.engine.step_ms, 2))

    async def _check_path(self, sdp: str | None) -> None:
        if sdp is None:
            await self._wire.send("check", ice_servers=await self._checks.servers(self._address))
        else:
            await self._wire.send("check", sdp=await self._checks.answer(sdp))

    def _check_unused(self) -> None:
        if self._busy:
            raise InvalidInput("This socket has a talk already; stop it first.", code="bad_message")

    def _stop(self) -> None:
        """Nothing is kept, of a talk that was cut off just now either."""
        if self._talk is None:
            return
        if self._busy:
            self._desk.stop(self._talk)
        elif self._talk.grant:
            self._desk.engine.forget(self._talk.grant)

    def _open_talk(self) -> Talk:
        if self._talk is None or not self._busy:
            raise InvalidInput(NO_TALK, code="bad_message")
        return self._talk

    def _set(self, talk: Talk, choices: dict[str, Any]) -> None:
        """What is not named stays as it is."""
        try:
            asked = talk.asked or self._sampling
            had = talk.choices
            kept = {"prompt": had.prompt, "voice": had.voice, "seed": had.seed} if had else {}
            wanted = read_choices({**kept, LOOP_GUARD: talk.guarded, **choices}, asked)
            if had is None or wanted.voice != had.voice:
                self._desk.own_voices.check(talk.ticket.visitor, wanted.voice)
            talk.set(wanted)
        except InvalidInput as error:
            talk.refuse_change(error)

    def _begin(self, talk: Talk) -> None:
        if self._teller is not None:
            self._teller.cancel()
        talk.anonymous = self._anonymous
        self._talk = talk
        self._tells = Teller(self._wire, self._desk, self._minter, talk)
        self._teller = asyncio.create_task(self._tells.run())
