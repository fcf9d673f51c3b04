"""Several lines at once, and junk sent to the signalling route: nobody is shut out, nobody sees a traceback."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from typing import Any

import numpy as np
from support.browser import browser_page, collected, second_visitor, start_call, wait_for_text
from support.served import served
from support.speech import speak

JUNK: list[Any] = [
    None,
    [1],
    "offer",
    {},
    {"type": "offer"},
    {"type": "offer", "sdp": None, "webrtc_id": "z"},
    {"type": "offer", "sdp": "junk", "webrtc_id": "y"},
    {"type": "offer", "sdp": "v=0\r\nm=audio x", "webrtc_id": "x"},
    {"type": "ice-candidate", "candidate": {}, "webrtc_id": "nobody"},
]


def _post(url: str, body: Any) -> tuple[int, str]:
    """Status and text of a POST of JSON."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _component_id(url: str) -> int:
    with urllib.request.urlopen(f"{url}/config", timeout=20) as answer:
        components = json.load(answer)["components"]
    return next(part["id"] for part in components if part["props"].get("elem_id") == "call")


def test_two_visitors_talk_at_once_whatever_junk_came_before(microphone) -> None:
    wav = microphone(speak("Hello, is anybody there? I would like to hear myself."))
    with served("--engine", "echo", "--slots", "2") as url:
        call = {"component_id": _component_id(url), "session_hash": "abc"}
        for function in ("offer", "quit_output_stream"):
            for junk in JUNK:
                _, text = _post(f"{url}/gradio_api/component_server", {**call, "fn_name": function, "data": junk})
                assert not re.search(r"Traceback|File \"", text), text
        with browser_page(url, wav) as first:
            start_call(first)
            wait_for_text(first, "status", "Talking")
            second = second_visitor(first, url)
            wait_for_text(second, "status", "1 of 2 lines free")
            start_call(second)
            wait_for_text(second, "status", "Talking")
            first.wait_for_timeout(4_000)
            loudest = [float(np.abs(collected(page)[1]).max()) for page in (first, second)]
    assert min(loudest) > 0.05, loudest


def test_uploads_are_closed(echo_url) -> None:
    assert _post(f"{echo_url}/gradio_api/upload", {})[0] == 404
    assert _post(f"{echo_url}/openapi.json", {})[0] in (404, 405)


def test_a_seed_s_html_is_shown_as_text(microphone, echo_url) -> None:
    with browser_page(echo_url, microphone(speak("Hello."))) as page:
        page.get_by_text("Sampling (moves during the call)").click()
        page.locator("#seed input, #seed textarea").fill("<img src=x>")
        start_call(page, wait_connected=False)
        wait_for_text(page, "status", "The seed must be a whole number")
        wait_for_text(page, "status", "<img src=x>")
        page.wait_for_timeout(500)
        assert page.locator("img[src='x']").count() == 0
