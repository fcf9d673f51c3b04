"""Nothing leaves the server's origin: strips the two addresses that gradio and fastrtc add, and forbids others.

gradio's index page loads an iframe resizer from a public host; fastrtc's component preloads a sound from another.
Both are conveniences that no call needs. A content security policy stops whatever a later version might add.
Uploads, which the page has no use for, are closed; an error's traceback goes to the log, never to the visitor.
Must not know: the page, the engine.
"""

from __future__ import annotations

import logging
import re
from typing import Any

log = logging.getLogger(__name__)

ASGIApp = Any
UNUSED_PATHS = ("/gradio_api/upload", "/gradio_api/stream_into")
_FOREIGN_SCRIPT = re.compile(rb"<script[^>]*\ssrc=\"https?://[^\"]*\"[^>]*>\s*</script>", re.IGNORECASE)
_FOREIGN_LINK = re.compile(rb"<link[^>]*\shref=\"https?://[^\"]*\"[^>]*>", re.IGNORECASE)
_FOREIGN_SOUND = re.compile(rb"https://[^\"'`\s]*pop-sounds\.mp3")
_SILENT_SOUND = b"data:audio/mpeg;base64,"
POLICY = (
    b"default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    b"connect-src 'self' data: blob:; img-src 'self' data: blob:; media-src 'self' data: blob:"
)


class OwnOriginOnly:
    """ASGI middleware; looks at HTML pages and at the component's scripts, passes everything else through."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].rstrip("/").endswith(UNUSED_PATHS):
            await _answer(send, 404, b"Not found.")
            return
        rewriter = _Rewriter(scope["path"], send)
        try:
            await self._app(scope, receive, rewriter)
        except Exception:
            log.exception("a request failed: %s", scope["path"])
            if not rewriter.begun:
                await _answer(send, 500, b"Something failed on the server.")


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Rewriter:
    """Holds a page's or script's body back until it is whole, then sends it stripped."""

    def __init__(self, path: str, send: Any) -> None:
        self._component_script = path.endswith(".js") and "/custom_component/" in path
        self._send = send
        self._start: dict[str, Any] | None = None
        self.begun = False
        self._body = b""

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            html = headers.get(b"content-type", b"").startswith(b"text/html")
            if html or self._component_script:
                self._start = message
                return
        if self._start is None:
            self.begun = True
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body"):
            await self._send_stripped(self._start)

    async def _send_stripped(self, start: dict[str, Any]) -> None:
        self.begun = True
        body = strip_foreign(self._body)
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        headers += [(b"content-length", str(len(body)).encode()), (b"content-security-policy", POLICY)]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def strip_foreign(body: bytes) -> bytes:
    """A page's or script's bytes without scripts, links and sounds of other origins."""
    for pattern in (_FOREIGN_SCRIPT, _FOREIGN_LINK):
        body = pattern.sub(b"", body)
    return _FOREIGN_SOUND.sub(_SILENT_SOUND, body)
