"""A page leaves our server without scripts, links and sounds of other origins, and forbids the browser to fetch any."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from personaplex_app.web.own_origin import POLICY, OwnOriginOnly, strip_foreign

FOREIGN = {
    "iframe resizer": b'<script src="https://cdnjs.cloudflare.com/ajax/libs/iframe-resizer.min.js" async></script>',
    "plain http": b'<script type="module" src="http://example.com/x.js">\n</script>',
    "upper case": b'<SCRIPT SRC="HTTPS://example.com/x.js"></SCRIPT>',
    "preconnect": b'<link rel="preconnect" href="https://fonts.gstatic.com" crossorigin="anonymous" />',
    "font": b'<link rel="stylesheet" href="https://fonts.googleapis.com/css2?family=Source">',
}
OWN = {
    "own script": b'<script type="module" src="./assets/index.js"></script>',
    "inline script": b"<script>window.gradio_config = {'a': 'https://example.com'};</script>",
    "own style": b'<link rel="stylesheet" href="/theme.css">',
    "anchor": b'<a href="https://huggingface.co/nvidia/personaplex-7b-v1">licence</a>',
}
SOUND = b'new Audio("https://huggingface.co/datasets/freddyaboulton/bucket/resolve/main/pop-sounds.mp3")'
HTML, SCRIPT = b"text/html; charset=utf-8", b"text/javascript"


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_foreign_goes(name: str) -> None:
    assert strip_foreign(b"<head>" + FOREIGN[name] + b"</head>") == b"<head></head>"


@pytest.mark.parametrize("name", OWN)
def test_what_is_ours_stays(name: str) -> None:
    assert strip_foreign(b"a" + OWN[name] + FOREIGN["font"] + b"z") == b"a" + OWN[name] + b"z"


def test_the_sound_becomes_silence() -> None:
    assert strip_foreign(SOUND) == b'new Audio("data:audio/mpeg;base64,")'


def _answer(
    path: str, kind: bytes, chunks: Sequence[bytes], length: bool = True, scheme: str = "http"
) -> list[dict[str, Any]]:
    """What comes out of the middleware when the app below sends these chunks."""
    sent: list[dict[str, Any]] = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = [(b"content-type", kind), (b"x-kept", b"1")]
        headers += [(b"content-length", str(sum(map(len, chunks))).encode())] if length else []
        await send({"type": f"{scheme}.response.start", "status": 200, "headers": headers})
        for index, chunk in enumerate(chunks):
            more = {"more_body": True} if index < len(chunks) - 1 else {}
            await send({"type": f"{scheme}.response.body", "body": chunk, **more})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(OwnOriginOnly(app)({"type": scheme, "path": path}, None, send))
    return sent


def _assert_stripped(sent: list[dict[str, Any]], body: bytes) -> None:
    start, only = sent
    headers = dict(start["headers"])
    assert start["status"] == 200 and only["body"] == body and not only.get("more_body")
    assert headers[b"content-length"] == str(len(body)).encode() and headers[b"x-kept"] == b"1"
    assert headers[b"content-security-policy"] == POLICY
    assert len(start["headers"]) == len(headers), "no header stands there twice"


@pytest.mark.parametrize("length", [True, False])
@pytest.mark.parametrize("size", [1, 7, 50, 10_000])
def test_a_page_in_pieces_of_any_size_is_stripped_whole(size: int, length: bool) -> None:
    page = b"<html>" + b"".join([*FOREIGN.values(), *OWN.values()]) + b"</html>"
    chunks = [page[at : at + size] for at in range(0, len(page), size)]
    _assert_stripped(_answer("/", HTML, chunks, length), b"<html>" + b"".join(OWN.values()) + b"</html>")


def test_an_empty_page_stays_empty() -> None:
    _assert_stripped(_answer("/", HTML, [b""]), b"")


def test_the_component_s_script_loses_its_sound() -> None:
    path = "/gradio_api/custom_component/abc/client/component/index.js"
    _assert_stripped(_answer(path, SCRIPT, [SOUND[:40], SOUND[40:]]), b'new Audio("data:audio/mpeg;base64,")')


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/gradio_api/queue/data", b"text/event-stream"),
        ("/assets/index.js", SCRIPT),
        ("/gradio_api/custom_component/abc/client/component/style.css", b"text/css"),
        ("/config", b"application/json"),
    ],
)
def test_everything_else_passes_untouched_and_at_once(path: str, kind: bytes) -> None:
    chunks = [FOREIGN["font"], SOUND, b"end"]
    start, *bodies = _answer(path, kind, chunks)
    assert [message["body"] for message in bodies] == chunks, "a stream is not held back"
    assert b"content-security-policy" not in dict(start["headers"])


def test_a_websocket_passes_untouched() -> None:
    sent = _answer("/", HTML, [FOREIGN["font"]], scheme="websocket")
    assert [message.get("body") for message in sent] == [None, FOREIGN["font"]]


def test_the_policy_names_no_other_origin() -> None:
    assert b"default-src 'self'" in POLICY and b"connect-src 'self'" in POLICY
    assert b"http" not in POLICY and b"*" not in POLICY
