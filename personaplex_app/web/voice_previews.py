"""How a checkpoint's voices sound: a list of them, and a few seconds of each, made by the model when it has time.

In: an engine, the door, names that visitors ask for. Out: Starlette routes; sound, or when to come back, in words.
Must not know: how a preview is made or kept, the page.

One is made at a time: the one somebody waits for, else, while nobody talks, the next that nobody has heard yet.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from personaplex_app.audio import FRAME_MS
from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.facade import Engine
from personaplex_app.errors import InvalidInput, NoCapacity, PersonaplexError
from personaplex_app.out_of_memory import log_fault
from personaplex_app.preview_shelf import PreviewShelf
from personaplex_app.preview_sounds import open_preview, preview_pieces, wav_bytes
from personaplex_app.voices import is_voice_name, voice_kind
from personaplex_app.web.doors import Doors

log = logging.getLogger(__name__)

ANSWER_SECONDS = 8.0  # then a request is told to come back; what it asked for is still being made
MAKE_SECONDS = 60.0  # beside talks it takes long
PATIENCE_SECONDS = 2.0  # for a slot, or for another one where a visitor took it back
AGAIN_SECONDS = 0.25
QUIET_SECONDS = 5.0  # without any talk, before what nobody asked for is made
RETRY_SECONDS = 10
FORBIDDEN, NOT_FOUND, UNUSABLE, NOT_NOW = 403, 404, 422, 503
NOT_YET = "The preview of {voice} is still being made, and talks go first. Try again in a moment."
SLOW = "The model is slower than real time here, so no previews are made."
KEPT = {"cache-control": "private, max-age=3600"}
NOT_KEPT = {"cache-control": "no-store"}


class VoicePreviews:
    """All previews of one checkpoint; it lives on the server's event loop.

    Args:
        note: what has to be said of every preview here, such as that it is noise. made: called for each that was made.
    """

    def __init__(
        self,
        engine: Engine,
        shelf: PreviewShelf,
        sampling: SamplingSettings,
        note: str = "",
        made: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._shelf = shelf
        self._sampling = sampling
        self._note = note
        self._made = made
        self._turn = asyncio.Lock()
        self._making: dict[str, asyncio.Task[bytes]] = {}
        self._failed: dict[str, PersonaplexError] = {}  # what would fail again
        self._unasked: asyncio.Task[None] | None = None

    def voices(self) -> list[dict[str, Any]]:
        """What `voices/previews` lists."""
        return [self._described(name) for name in self._engine.stepper.voice_names]

    def _described(self, name: str) -> dict[str, Any]:
        style, gender = voice_kind(name)
        failed = self._failed.get(name)
        return {
            "name": name,
            "style": style,
            "gender": gender,
            "preview": None if failed else f"voices/preview/{name}.wav",
            "note": failed.sentence if failed else self._note,
        }

    async def wav(self, voice: str) -> bytes:
        """The sound of a voice that the checkpoint has, made now where there is none yet.

        Raises NoCapacity where it cannot be made now, InvalidInput for a voice that cannot be used, ServerFault.
        """
        if voice in self._failed:
            raise self._failed[voice]
        found = await asyncio.to_thread(self._shelf.find, voice)
        if found is not None:
            return found
        if self._engine.status.step_ms > FRAME_MS:  # whoever comes would wait long for the slot
            raise NoCapacity(SLOW)
        try:
            return await asyncio.wait_for(asyncio.shield(self._begun(voice)), ANSWER_SECONDS)
        except TimeoutError:
            raise NoCapacity(NOT_YET.format(voice=voice)) from None

    def _begun(self, voice: str) -> asyncio.Task[bytes]:
        if voice not in self._making:
            task = self._making[voice] = asyncio.create_task(self._make(voice))
            task.add_done_callback(lambda done: self._ended(voice, done))
        return self._making[voice]

    def _ended(self, voice: str, task: asyncio.Task[bytes]) -> None:
        self._making.pop(voice, None)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, InvalidInput) or (isinstance(error, PersonaplexError) and error.code == "silent"):
            log.warning("there is no preview of %s: %s", voice, error.sentence)
            self._failed[voice] = error

    async def _make(self, voice: str) -> bytes:
        async with self._turn:
            openings = await asyncio.to_thread(open_preview, self._engine, voice, self._sampling)
            give_up = time.monotonic() + PATIENCE_SECONDS
            while True:
                try:
                    return await self._spoken(voice, openings)
                except NoCapacity:
                    if time.monotonic() > give_up:
                        raise
                await asyncio.sleep(AGAIN_SECONDS)

    async def _spoken(self, voice: str, openings: list[Any]) -> bytes:
        errand = self._engine.errand(preview_pieces(self._engine, voice, openings), background=True)
        try:
            pcm = await asyncio.wait_for(asyncio.wrap_future(errand), MAKE_SECONDS)
        except TimeoutError:
            raise NoCapacity(NOT_YET.format(voice=voice)) from None
        wav = wav_bytes(pcm)
        await asyncio.to_thread(self._shelf.put, voice, wav)
        self._made()
        return wav

    # What nobody asked for.

    def start(self) -> None:
        """From now on, whenever nobody talks, previews are made that there are none of yet."""
        if self._engine.stepper.voice_names:
            self._unasked = asyncio.create_task(self._make_unasked())

    async def close(self) -> None:
        """No more of it."""
        tasks = [*self._making.values(), *([self._unasked] if self._unasked else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _make_unasked(self) -> None:
        for voice in self._engine.stepper.voice_names:
            while voice not in self._failed and voice not in self._shelf:
                await self._until_quiet()
                try:
                    await self.wav(voice)
                except NoCapacity:
                    continue  # somebody came, and will go
                except PersonaplexError as error:
                    if voice in self._failed:
                        continue
                    log.info("the preview of %s was not made: %s", voice, error.sentence)
                    return
                except Exception as error:
                    log_fault(log, error, f"the preview of {voice} was not made")
                    return

    async def _until_quiet(self) -> None:
        """Nobody has held a slot for a while."""
        quiet = 0.0
        while quiet < QUIET_SECONDS:
            await asyncio.sleep(QUIET_SECONDS / 5)
            status = self._engine.status
            quiet = quiet + QUIET_SECONDS / 5 if status.free == status.slots else 0.0


def preview_routes(previews: VoicePreviews, doors: Doors) -> list[BaseRoute]:
    """`/voices/previews` and `/voices/preview/NAME.wav`."""

    async def listed(request: Request) -> Response:
        refusal = doors.refusal(request)
        if refusal:
            return _refused(FORBIDDEN, refusal)
        return JSONResponse({"voices": previews.voices()}, headers=NOT_KEPT)

    async def sound(request: Request) -> Response:
        refusal = doors.refusal(request)
        if refusal:
            return _refused(FORBIDDEN, refusal)
        name = request.path_params["name"]
        if not is_voice_name(name) or name not in {voice["name"] for voice in previews.voices()}:
            return _refused(NOT_FOUND, "This checkpoint has no such voice.")
        try:
            return _sound(await previews.wav(name), request.headers.get("if-none-match", ""))
        except InvalidInput as error:
            return _refused(UNUSABLE, error.sentence)
        except PersonaplexError as error:
            return _refused(NOT_NOW, error.sentence, **{"retry-after": str(RETRY_SECONDS)})

    return [Route("/voices/previews", listed), Route("/voices/preview/{name}.wav", sound)]


def _sound(wav: bytes, known: str) -> Response:
    headers = {**KEPT, "etag": f'"{hashlib.sha256(wav).hexdigest()[:16]}"'}
    if headers["etag"] in known:
        return Response(status_code=304, headers=headers)
    return Response(wav, media_type="audio/wav", headers=headers)


def _refused(status: int, sentence: str, **headers: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers={**NOT_KEPT, **headers})
