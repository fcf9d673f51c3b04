"""JSON asked and answered: a request's body of bounded size, work on it beside the event loop, errors as one sentence.

In: requests. Out: mappings of values, responses. Must not know: what is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import Request
from starlette.responses import JSONResponse

from personaplex_app.errors import InvalidInput, NoCapacity, PersonaplexError
from personaplex_app.web.health import NOT_KEPT

MOST_BODY_BYTES = 64 << 10
MOST_WAITING = 64
_STATUS = {"too_large": 413, "no_capacity": 429, "server_fault": 503}
_OTHERWISE = 422

Values = Mapping[str, Any]
Work = Callable[[Values], Values]


async def read_body(request: Request, most_bytes: int = MOST_BODY_BYTES) -> bytes:
    """The body; raises InvalidInput (code `too_large`) as soon as it is too large, and reads no further."""
    too_large = InvalidInput(f"What was sent is too large; at most {most_bytes >> 10} KiB are read.", code="too_large")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > most_bytes:
        raise too_large
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most_bytes:
            raise too_large
    return bytes(body)


def parse_values(body: bytes) -> dict[str, Any]:
    """A JSON object's values; raises InvalidInput."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):  # no JSON, no UTF-8, a number of thousands of digits, nested without end
        raise InvalidInput("What was sent is no readable JSON.") from None
    if not isinstance(values, dict):
        raise InvalidInput("What was sent is no JSON object.")
    return values


def error_answer(error: PersonaplexError) -> JSONResponse:
    """The sentence, with the status that fits it."""
    return JSONResponse({"error": error.sentence}, _STATUS.get(error.code, _OTHERWISE), headers=NOT_KEPT)


class Workbench:
    """Work of some milliseconds in a thread, one piece at a time, so that it is never in the engine's way twice.

    Args:
        most_waiting: more than these are turned away at once.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._one = CapacityLimiter(1)
        self._most_waiting = most_waiting
        self._waiting = 0

    async def answer(self, request: Request, work: Work, most_bytes: int) -> JSONResponse:
        """What `work` makes of the body's values, or the sentence of what it raises."""
        if self._waiting >= self._most_waiting:
            return error_answer(NoCapacity("Too many ask at once; try again in a moment."))
        self._waiting += 1
        try:
            body = await read_body(request, most_bytes)
            return await anyio.to_thread.run_sync(_worked, work, body, limiter=self._one)
        except PersonaplexError as error:
            return error_answer(error)
        finally:
            self._waiting -= 1


def _worked(work: Work, body: bytes) -> JSONResponse:
    return JSONResponse(dict(work(parse_values(body))), headers=NOT_KEPT)
