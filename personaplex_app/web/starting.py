"""The first page: what the server does until there is a model to talk with, served before anything is loaded.

Needs no login and tells only how far the start is. The page asks `/starting` every second and becomes the real page
by itself once that says `ready`. Whoever asks for anything else is told to come back.
In: an address, lines of progress. Out: the listening socket, for the real server. Must not know: gradio, the engine.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import socket
import time
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from personaplex_app.errors import PersonaplexError
from personaplex_app.out_of_memory import is_out_of_memory, memory_sentence
from personaplex_app.settings import Settings
from personaplex_app.web.drain import end_on_sigterm, ending_at_once
from personaplex_app.web.health import NOT_KEPT, STARTING
from personaplex_app.web.languages import TAGS, table_of, wished_language
from personaplex_app.web.listening import ThreadedServer, listen
from personaplex_app.web.progress import Progress

log = logging.getLogger(__name__)

STATE_PATH, LIVE_PATH = "/starting", "/health/live"
LAST_WORDS_SECONDS = 2.0  # two looks of a page
WATCHED_SECONDS = 4.0  # a page that has not looked for so long is gone
NOT_YET = 503
# No connection is kept: it would have to be cut when the real server takes over. A socket is refused like all else.
PLAIN: dict[str, Any] = {
    "patience_seconds": 0.5,
    "loop": "asyncio",
    "lifespan": "off",
    "ws": "none",
    "headers": [("connection", "close")],
    "timeout_graceful_shutdown": 1,
    "log_level": "error",
}
STATIC = Path(__file__).parent / "static"


class StartingPage:
    """The application that answers until the real one does."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._template = _template()
        self._looked_at = float("-inf")

    @property
    def watched(self) -> bool:
        """Whether somebody has the page open."""
        return time.monotonic() - self._looked_at < WATCHED_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        await self._answer(Request(scope))(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        """By the path's end, since a proxy may put something before it."""
        path = str(request.scope["path"])
        if path.endswith(STATE_PATH):
            self._looked_at = time.monotonic()
            return JSONResponse(self.state(request.query_params.get("language", "en")), headers=NOT_KEPT)
        if path.endswith(LIVE_PATH):
            return JSONResponse({"status": "ok"}, headers=NOT_KEPT)
        if request.method in ("GET", "HEAD") and _is_for_people(path, request.headers.get("accept", "")):
            self._looked_at = time.monotonic()
            return self._page(wished_language(request.headers.get("accept-language", "")))
        return self._not_yet()

    def state(self, language: str = "en") -> dict[str, Any]:
        """What `/starting` says, in one of our languages."""
        view, said = self._progress.view, table_of(language).translated
        return {
            "state": "failed" if view.failed else "starting",
            "sentence": said(view.failed),
            "words": said(view.phase.words),
            "detail": view.phase.detail if language == "en" else view.phase.detail.replace(" of ", " / "),
            "fraction": view.phase.fraction,
            "seconds": round(view.seconds, 1),
            "done": [[said(words), seconds and round(seconds, 1)] for words, seconds in view.done],
        }

    def _not_yet(self) -> Response:
        view = self._progress.view
        body = {"status": "not ready", "sentence": view.failed or f"{STARTING} {view.phase.words}."}
        return JSONResponse(body, NOT_YET, headers={**NOT_KEPT, "retry-after": "5"})

    def _page(self, language: str) -> Response:
        nonce, state = secrets.token_urlsafe(12), self.state(language)
        words = state["sentence"] or state["words"]
        filled = {"nonce": nonce, "tag": TAGS[language], "words": words, "detail": state["detail"]}
        page = self._template
        for name, text in filled.items():
            page = page.replace(f"{{{{{name}}}}}", escape(text))
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        )
        return HTMLResponse(page, headers={**NOT_KEPT, "content-security-policy": policy})


def _template() -> str:
    """The page with its words in all languages, and with the script that chooses one of them."""
    tables = {language: table_of(language).parts["starting"] for language in TAGS if language != "en"}
    script = (STATIC / "language.js").read_text(encoding="utf-8")
    page = (STATIC / "starting.html").read_text(encoding="utf-8")
    page = page.replace("{{tables}}", json.dumps(tables, ensure_ascii=False).replace("<", "\\u003c"))
    return page.replace("{{language_script}}", script)


def _is_for_people(path: str, accept: str) -> bool:
    """A page is wanted: by a browser, or by whoever asks a place whether it answers."""
    return path.endswith("/") or "text/html" in accept


def ready_route() -> Route:
    """What the real server answers to a page that still shows the start."""
    return Route(STATE_PATH, lambda request: JSONResponse({"state": "ready"}, headers=NOT_KEPT))


class Entrance:
    """Listens and shows the progress; use as a context manager, around the start and all that follows.

    Signals end the process at once, until `settle`. An error that ends the start is shown for two seconds to those who
    have the page open, and goes on its way. Raises InvalidInput where the address cannot be had.
    """

    def __init__(self, host: str, port: int) -> None:
        self._progress = Progress(log.info)
        self._page = StartingPage(self._progress)
        self._listening = listen(host, port)
        self._server = ThreadedServer(self._page, self._listening.dup(), "starting", **PLAIN)
        self._signals = contextlib.ExitStack()
        self._open = False

    def report(self, line: str) -> None:
        """What is done from now on, or how far it is; from any thread."""
        self._progress.report(line)

    def close_soon(self) -> None:
        """The first page is about to go."""
        self._server.close_soon()

    def hand_over(self) -> socket.socket:
        """The first page is gone; returns the listening socket, where those who knock wait for another server."""
        self._open = False
        self._server.close()
        return self._listening

    def settle(self) -> None:
        """The start is over: signals are somebody else's from now on."""
        self._signals.close()

    def __enter__(self) -> Entrance:
        self._signals.enter_context(ending_at_once())
        self._server.start()
        self._open = True
        log.info("http://%s:%d/ shows how far the start is.", *self._listening.getsockname()[:2])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, Exception) and self._open:
            self._progress.fail(_sentence(error))
            if self._page.watched:
                time.sleep(LAST_WORDS_SECONDS)
        self._server.close()
        self._listening.close()
        self._signals.close()


def open_and_serve(settings: Settings) -> None:
    """Listens, then loads all the rest and serves it; raises InvalidInput for what cannot be used."""
    end_on_sigterm()
    with Entrance(settings.host, settings.port) as entrance:
        entrance.report("Loading the libraries ...")
        from personaplex_app.web.server import serve  # torch and gradio: seconds

        serve(settings, entrance)


def _sentence(error: Exception) -> str:
    """An error's words for a stranger."""
    if isinstance(error, PersonaplexError):
        return error.sentence
    if is_out_of_memory(error):
        return memory_sentence("The memory ran out")
    if isinstance(error, OSError):
        return f"{error.filename or 'A file'} cannot be used: {error.strerror or error}."
    return f"The server failed while it started ({type(error).__name__}); its log says more."
