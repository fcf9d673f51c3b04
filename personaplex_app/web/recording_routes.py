"""The routes of a visitor's recordings: `GET recordings`, `GET recordings/ID.wav` (`srt`, `vtt`, `json`), `DELETE`.

The sound is sent piece by piece out of the memory that it lies in. An error is `{"error": "one sentence"}`, the same
for a recording that never was, that is gone and that is another's.
In: requests. Out: Starlette routes. Must not know: talks, how a recording comes about.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from personaplex_app.errors import InvalidInput
from personaplex_app.records.captions import SYNTHETIC, cues_of, srt, vtt
from personaplex_app.records.recording import FRAME_BYTES
from personaplex_app.records.stereo_wav import wav_head
from personaplex_app.web.doors import Doors
from personaplex_app.web.health import NOT_KEPT
from personaplex_app.web.own_voice_routes import METHODS, NO_METHOD
from personaplex_app.web.recorded_talk import talk_values, xray_values
from personaplex_app.web.recordings import Recorded, Recordings

SOFTWARE = "personaplex_app"
COMMENT = f"{SYNTHETIC} It is the right channel; the left one is the visitor's microphone."
KINDS = {
    "wav": "audio/wav",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "json": "application/json",
}
NOT_FOUND = 404


class RecordingRoutes:
    """What each route answers; `refusal` is asked first."""

    def __init__(self, recordings: Recordings, doors: Doors, model: dict[str, Any]) -> None:
        self._recordings = recordings
        self._doors = doors
        self._model = model
        self._workers = CapacityLimiter(1)

    async def all_own(self, request: Request) -> Response:
        """`GET`: the caller's recordings, and whether any can be made here."""
        if refusal := self._doors.refusal(request):
            return _answer({"error": refusal}, 403)
        if request.method != "GET":
            return _answer({"error": NO_METHOD}, 405)
        own = self._recordings.of(self._doors.visitor(request))
        return _answer(
            {
                "possible": bool(self._recordings.room.most_bytes),
                "kept_seconds": self._recordings.kept_seconds,
                "recordings": [self._view(one) for one in own],
            }
        )

    async def one(self, request: Request) -> Response:
        """`GET` a recording in one of its forms; `DELETE` it."""
        if refusal := self._doors.refusal(request):
            return _answer({"error": refusal}, 403)
        visitor, asked = self._doors.visitor(request), str(request.path_params["name"])
        try:
            if request.method == "DELETE":
                self._recordings.delete(visitor, asked)
                return _answer({})
            if request.method != "GET":
                return _answer({"error": NO_METHOD}, 405)
            name, _, kind = asked.rpartition(".")
            return await self._file(self._recordings.find(visitor, name if kind in KINDS else asked), kind)
        except InvalidInput as error:
            return _answer({"error": error.sentence}, NOT_FOUND)

    async def _file(self, one: Recorded, kind: str) -> Response:
        if kind not in KINDS:
            raise InvalidInput(f"A recording can be had as {', '.join(KINDS)}.")
        headers = {
            **NOT_KEPT,
            "content-disposition": f'attachment; filename="talk-{one.name[:8]}.{kind}"',
            "x-content-type-options": "nosniff",
        }
        if kind == "wav":
            frames = len(one.sound)  # of a recording that goes on, too
            head = wav_head(frames * FRAME_BYTES, COMMENT, SOFTWARE)
            headers["content-length"] = str(len(head) + frames * FRAME_BYTES)
            return StreamingResponse(_wav(head, one, frames), media_type=KINDS[kind], headers=headers)
        return Response(await self._text(one, kind), media_type=KINDS[kind], headers=headers)

    async def _text(self, one: Recorded, kind: str) -> bytes:
        words = one.words
        if kind == "json":
            values = talk_values(one, words, self._model)
            values["xray"] = await to_thread.run_sync(xray_values, one.speech, words.remarks, limiter=self._workers)
            text = json.dumps(values, ensure_ascii=False, indent=1)
        else:
            text = (srt if kind == "srt" else vtt)(cues_of(words.turns, one.sound.seconds))
        return text.encode("utf-8", "backslashreplace")  # half a letter of a prompt's is written as JSON writes it

    def _view(self, one: Recorded) -> dict[str, Any]:
        left = self._recordings.left_seconds(one)
        return {
            "id": one.name,
            "on": one.on and left is None,
            "seconds": one.sound.seconds,
            "bytes": len(one.sound) * FRAME_BYTES,
            "expires_seconds": None if left is None else round(left),
        }


async def _wav(head: bytes, one: Recorded, frames: int) -> AsyncIterator[bytes]:
    yield head
    for piece in one.sound.pieces(frames):
        yield piece
        await asyncio.sleep(0)  # a client that takes them at once keeps nobody's talk waiting


def recording_routes(recordings: Recordings, doors: Doors, model: dict[str, Any]) -> list[BaseRoute]:
    """`recordings` and `recordings/ID...`, for every method: a wrong one is refused in words."""
    routes = RecordingRoutes(recordings, doors, model)
    return [
        Route("/recordings", routes.all_own, methods=METHODS),
        Route("/recordings/{name:path}", routes.one, methods=METHODS),
    ]


def _answer(content: dict[str, Any], status: int = 200) -> JSONResponse:
    return JSONResponse(content, status, headers=NOT_KEPT)
