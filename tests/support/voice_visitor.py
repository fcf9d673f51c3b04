"""A visitor who brings a clip: over HTTP, or piece by piece as a server passes a body on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from support.front import OpenFront

from personaplex_app.web.visitors import COOKIE

CONSENT = {"x-consent": "yes", "x-file-name": "clip.wav"}
PIECE = bytes(1 << 20)


@asynccontextmanager
async def visiting(front: OpenFront, visitor: str | None, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    """A browser with the visitor's cookie, or with none."""
    cookie = {} if visitor is None else {"cookie": f"{COOKIE}={front.visitors.sign(visitor)}"}
    async with httpx.AsyncClient(base_url=front.http, headers={**cookie, **headers}, timeout=20) as client:
        yield client


async def send(client: httpx.AsyncClient, clip: bytes, **headers: str) -> httpx.Response:
    """Sends a clip with consent; headers take an underscore for a dash."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post("/voices/own", content=clip, headers={**CONSENT, **named})


@dataclass
class Body:
    """A body that comes in pieces; `next` is asked for each.

    Attributes:
        taken: how many pieces were asked for.
    """

    next: Callable[[int], Mapping[str, Any]]
    taken: int = 0

    async def receive(self) -> dict[str, Any]:
        self.taken += 1
        return dict(self.next(self.taken))


@dataclass
class Answer:
    status: int = 0
    body: bytes = b""
    sent: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")

    @property
    def error(self) -> str:
        return json.loads(self.body)["error"]


async def post(app: Any, body: Body, headers: Mapping[str, str]) -> Answer:
    """One POST to `/voices/own`, of which the test sees every piece."""
    answer = Answer()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/voices/own",
        "raw_path": b"/voices/own",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("192.0.2.1", 1),
        "scheme": "http",
        "http_version": "1.1",
    }
    await app(scope, body.receive, answer.send)
    return answer
