"""The routes of a visitor's own voice: `POST voices/own` a clip, `GET voices/own`, `DELETE voices/own/NAME`.

A clip comes as the body, with `X-Consent: yes`; it is read, prepared, encoded between the engine's ticks and dropped,
and only the voice is kept, for the visitor whose cookie came with it. An error is `{"error": "one sentence"}`.
In: requests. Out: Starlette routes. Must not know: containers and codecs, the page.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from personaplex_app.clip_reader import read_clip
from personaplex_app.errors import InvalidInput, NoCapacity, PersonaplexError, ServerFault
from personaplex_app.voice_clip import PreparedClip, prepare_clip
from personaplex_app.web.clip_door import MOST_BYTES, TOO_LARGE, ClipDoor
from personaplex_app.web.desk import UNEXPECTED, FrontDesk
from personaplex_app.web.doors import Doors
from personaplex_app.web.health import NOT_KEPT
from personaplex_app.web.json_body import read_body
from personaplex_app.web.own_voices import OwnVoice

log = logging.getLogger(__name__)

BODY_SECONDS = 60.0
SWEEP_AFTER_SECONDS = 1.0  # the end of a voice's time
WORKERS = 2
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
TOO_SLOW = f"The clip did not arrive within {BODY_SECONDS:.0f} s; send a shorter one."
NO_METHOD = "That cannot be done here."
GONE_AWAY = 499
_STATUS = {"no_cookie": 403, "too_large": 413, "unknown_voice": 404}


class ClipsAtWork:
    """From a clip's bytes to a voice that is kept; each part in few threads of its own, off the event loop."""

    def __init__(self, desk: FrontDesk) -> None:
        self._desk = desk
        self._readers, self._learners = CapacityLimiter(WORKERS), CapacityLimiter(WORKERS)

    async def make(self, visitor: str, data: bytes) -> OwnVoice:
        """Raises InvalidInput, NoCapacity or ServerFault in words; of the clip nothing is left afterwards."""
        engine, voices = self._desk.engine, self._desk.own_voices
        prepared = await to_thread.run_sync(_prepared, data, engine.stepper.voice_seconds, limiter=self._readers)
        learned = await to_thread.run_sync(engine.learn_voice, prepared.pcm, limiter=self._learners)
        kept = voices.keep(visitor, learned, prepared.seconds, prepared.notes)
        asyncio.get_running_loop().call_later(voices.kept_seconds + SWEEP_AFTER_SECONDS, voices.sweep)
        return kept


def _prepared(data: bytes, most_seconds: float) -> PreparedClip:
    return prepare_clip(read_clip(data), most_seconds)


class OwnVoiceRoutes:
    """What each route answers; `refusal` is asked first."""

    def __init__(self, desk: FrontDesk, doors: Doors) -> None:
        self._desk = desk
        self._doors = doors
        self._door = ClipDoor(desk, doors)
        self._clips = ClipsAtWork(desk)

    async def all_own(self, request: Request) -> Response:
        """`GET`: the caller's voices. `POST`: another."""
        if refusal := self._doors.refusal(request):
            return _answer({"error": refusal}, 403)
        if request.method == "POST":
            return await self._take(request)
        if request.method != "GET":
            return _answer({"error": NO_METHOD}, 405)
        own = self._desk.own_voices.of(self._doors.visitor(request))
        return _answer({"voices": [self._view(voice) for voice in own]})

    async def one(self, request: Request) -> Response:
        """`DELETE`: no more of it."""
        if refusal := self._doors.refusal(request):
            return _answer({"error": refusal}, 403)
        if request.method != "DELETE":
            return _answer({"error": NO_METHOD}, 405)
        try:
            self._desk.own_voices.delete(self._doors.visitor(request), request.path_params["name"])
        except InvalidInput as error:
            return _refused(error)
        return _answer({})

    async def _take(self, request: Request) -> Response:
        try:
            with self._door.entered(request) as visitor:
                kept = await self._clips.make(visitor, await _body(request))
        except ClientDisconnect:
            return Response(status_code=GONE_AWAY)
        except PersonaplexError as error:
            self._desk.metrics.voice_refused(error.code)
            return _refused(error)
        except Exception:
            log.exception("a clip could not be made a voice")
            self._desk.metrics.voice_refused(ServerFault.code)
            return _refused(ServerFault(UNEXPECTED))
        self._desk.metrics.voice_taken()
        return _answer(self._view(kept))

    def _view(self, voice: OwnVoice) -> dict[str, Any]:
        return {
            "voice": voice.name,
            "seconds": round(voice.seconds, 2),
            "notes": list(voice.notes),
            "expires_seconds": round(self._desk.own_voices.left_seconds(voice)),
        }


def own_voice_routes(desk: FrontDesk, doors: Doors) -> list[BaseRoute]:
    """`voices/own` and `voices/own/NAME`, for every method: a wrong one is refused in words."""
    routes = OwnVoiceRoutes(desk, doors)
    return [
        Route("/voices/own", routes.all_own, methods=METHODS),
        Route("/voices/own/{name:path}", routes.one, methods=METHODS),
    ]


async def _body(request: Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await read_body(request, MOST_BYTES)
    except TimeoutError:
        raise InvalidInput(TOO_SLOW, code="too_slow") from None
    except InvalidInput:
        raise InvalidInput(TOO_LARGE, code="too_large") from None


def _refused(error: PersonaplexError) -> JSONResponse:
    otherwise = 429 if isinstance(error, NoCapacity) else 503 if isinstance(error, ServerFault) else 422
    return _answer({"error": error.sentence}, _STATUS.get(error.code, otherwise))


def _answer(content: dict[str, Any], status: int = 200) -> JSONResponse:
    return JSONResponse(content, status, headers=NOT_KEPT)
