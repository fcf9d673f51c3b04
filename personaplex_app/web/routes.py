"""Our own routes beside gradio's: the talk's socket, how many lines are free, and the page's scripts.

In: the front desk, the doors. Out: Starlette routes. Must not know: the page, FastRTC.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from personaplex_app.controls import SamplingSettings
from personaplex_app.web.call_view import lines_words
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.doors import Doors
from personaplex_app.web.path_check import PathChecks
from personaplex_app.web.talk_health import engine_facts
from personaplex_app.web.talk_socket import TalkSocket
from personaplex_app.web.turn import IceMinter

STATIC = Path(__file__).parent / "static"
FORBIDDEN = 403


def talk_routes(desk: FrontDesk, doors: Doors, minter: IceMinter, sampling: SamplingSettings) -> list[BaseRoute]:
    """`/talk/socket`, `/talk/lines` and `/talk/static/...`."""

    checks = PathChecks(minter)

    async def socket(websocket: WebSocket) -> None:
        if doors.refusal(websocket):
            await websocket.close()  # before it is accepted: the client sees 403
            return
        await websocket.accept()
        await TalkSocket(
            websocket, desk, minter, checks, doors.visitor(websocket), doors.address(websocket), sampling
        ).run()

    async def lines(request: Request) -> Response:
        refusal = doors.refusal(request)
        if refusal:
            return JSONResponse({"sentence": refusal}, FORBIDDEN)
        return JSONResponse({**lines_now(desk), "notice": minter.notice})

    return [
        WebSocketRoute("/talk/socket", socket),
        Route("/talk/lines", lines),
        Mount("/talk/static", StaticFiles(directory=STATIC)),
    ]


def lines_now(desk: FrontDesk) -> dict[str, Any]:
    """What `/talk/lines` says."""
    engine, now = desk.engine.status, desk.status
    return {
        "slots": engine.slots,
        "free": now.free,
        "waiting": now.waiting,
        "step_ms": round(engine.step_ms, 2),
        "model": engine_facts(desk.engine.stepper),
        "failed": engine.failed,
        "draining": now.draining,
        "sentence": lines_words(engine, now.free, now.waiting, now.draining),
    }
