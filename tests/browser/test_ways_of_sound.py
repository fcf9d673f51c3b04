"""A talk in the browser keeps its persona's thread: when its sound moves to the socket, and when the line is cut."""

from __future__ import annotations

from typing import Any

from support.browser import browser_page, note_texts, start_call, stop_call, wait_for_text, wait_noted
from support.served import served
from support.speech import speak

from .conftest import PROBE, Probe

CUT = "() => { window.personaplex.line.socket.close(); }"
CUT_WEBRTC = "() => { window.__tap.peers.at(-1).close(); }"


def _goes_on(page: Any, probe: Probe, frames: int = 10) -> dict[str, Any]:
    """The latest session, once it has taken so many frames more; fails where they are silence only."""
    before = probe.sessions()[-1]
    for _ in range(100):
        session = probe.sessions()[-1]
        if session["counters"]["heard"] >= before["counters"]["heard"] + frames:
            break
    assert session["state"] == "talking" and session["counters"]["heard"] >= before["counters"]["heard"] + frames
    assert session["tokens"][: len(before["tokens"])] == before["tokens"]
    return session


def test_a_talk_moves_to_the_socket_and_comes_back_when_it_is_cut(microphone, probe) -> None:
    with (
        served("--engine", "echo", script=PROBE, **probe.variables) as url,
        browser_page(url, microphone(speak("Hello, is anybody there?"))) as page,
    ):
        start_call(page)
        wait_for_text(page, "status", "Talking")
        wait_for_text(page, "path", "direct (WebRTC)")
        first = _goes_on(page, probe)

        note_texts(page, "status")
        page.evaluate(CUT_WEBRTC)
        wait_noted(page, "Going back to your talk")
        wait_for_text(page, "status", "Talking")
        wait_for_text(page, "path", "direct (WebRTC)")
        resumed = _goes_on(page, probe)
        assert resumed["generation"] == first["generation"] + 1
        assert resumed["tokens"][: len(first["tokens"])] == first["tokens"]

        page.get_by_text("This talk's line").click()
        page.get_by_label("Send the sound over the socket instead of WebRTC").check()
        wait_for_text(page, "status", "Over the socket. Talking.")
        wait_for_text(page, "path", "the socket")
        assert _goes_on(page, probe)["generation"] == resumed["generation"], "the same session"
        page.wait_for_function("() => window.__tap.peers.at(-1).connectionState === 'closed'")

        note_texts(page, "status")
        page.evaluate(CUT)
        wait_noted(page, "Going back to your talk")
        wait_for_text(page, "status", "Over the socket. Talking")
        again = _goes_on(page, probe)
        assert again["generation"] == resumed["generation"] + 1
        assert again["tokens"][: len(resumed["tokens"])] == resumed["tokens"]

        stop_call(page)
        wait_for_text(page, "status", "You ended the talk")
        wait_for_text(page, "status", "1 of 1 lines free")
        assert len(probe.sessions()) == 3
