"""The door for visitors' clips: consent, cookie, room for another voice, and how many may come at once and a minute.

In: a request. Out: the visitor, or a refusal in words before a byte of the clip is read.
Must not know: what is done with a clip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request

from personaplex_app.engine.joins import JoinLimit
from personaplex_app.errors import InvalidInput, NoCapacity
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.doors import Doors

MOST_BYTES = 12 << 20
UPLOADS_A_MINUTE, UPLOADS_A_MINUTE_BY_ADDRESS = 6, 30
MOST_AT_ONCE, MOST_AT_ONCE_BY_ADDRESS = 8, 4
NO_CONSENT = "Read and tick the statement first: without your consent no clip is taken."
NO_COOKIE = "An own voice belongs to the browser it was made in: open the page there, and allow its cookie."
TOO_LARGE = f"The clip is larger than {MOST_BYTES >> 20} MiB; 3 to 30 seconds are enough."
ONE_AT_A_TIME = "Your last clip is still being listened to; wait for it."
BUSY = "Too many clips are being listened to; try again in a minute."
TOO_OFTEN = "Those were many clips within a minute; try again in a moment."


class ClipDoor:
    """Who may send a clip now."""

    def __init__(self, desk: FrontDesk, doors: Doors) -> None:
        self._desk = desk
        self._doors = doors
        self._by_visitor = JoinLimit(UPLOADS_A_MINUTE, 60.0)
        self._by_address = JoinLimit(UPLOADS_A_MINUTE_BY_ADDRESS, 60.0)
        self._inside: list[tuple[str, str]] = []  # visitor and address of every clip at work

    @contextmanager
    def entered(self, request: Request) -> Iterator[str]:
        """The visitor, while the clip is at work; raises in words before a byte of it is read."""
        if request.headers.get("x-consent", "").strip().lower() != "yes":
            raise InvalidInput(NO_CONSENT, code="no_consent")
        visitor, address = self._doors.visitor(request), self._doors.address(request)
        if visitor is None:
            raise InvalidInput(NO_COOKIE, code="no_cookie")
        if self._desk.status.draining:
            raise NoCapacity(self._desk.status.draining, code="draining")
        self._check_length(request)
        self._desk.own_voices.check_room(visitor)
        self._check_rates(visitor, address)
        place = (visitor, address)
        self._inside.append(place)
        try:
            yield visitor
        finally:
            self._inside.remove(place)

    def _check_length(self, request: Request) -> None:
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and (len(declared) > 12 or int(declared) > MOST_BYTES):
            raise InvalidInput(TOO_LARGE, code="too_large")

    def _check_rates(self, visitor: str, address: str) -> None:
        if any(visitor == one for one, _ in self._inside):
            raise NoCapacity(ONE_AT_A_TIME)
        there = sum(address == one for _, one in self._inside)
        if len(self._inside) >= MOST_AT_ONCE or there >= MOST_AT_ONCE_BY_ADDRESS:
            raise NoCapacity(BUSY)
        now = asyncio.get_running_loop().time()
        if self._by_visitor.wait_seconds(visitor, now) or self._by_address.wait_seconds(address, now):
            raise NoCapacity(TOO_OFTEN, code="too_many_uploads")
        self._by_visitor.note(visitor, now)
        self._by_address.note(address, now)
