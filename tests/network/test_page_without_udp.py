"""The page where no UDP goes: with a coturn over TCP the talk runs by relay, without one it moves to the socket."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Page
from support.browser import browser_page, collected, start_call, stop_call, wait_for_text
from support.coturn import SECRET, coturn
from support.netns import MIDDLE_OF_SERVER, Rooms, forwarded, needs_namespaces, three_rooms
from support.served import ROOT, served
from support.signals import clicks, latencies_ms

pytestmark = [needs_namespaces, pytest.mark.browser]

PROBE = ROOT / "tests" / "support" / "probe_server.py"
FLAGS = ("--engine", "echo", "--plain-microphone", "--host", "0.0.0.0", "--public")
SOON_SECONDS = 12.0  # 8 s are given to WebRTC, then the socket begins


@pytest.fixture
def rooms() -> Iterator[Rooms]:
    with three_rooms() as rooms:
        yield rooms


@contextmanager
def _page_from_afar(rooms: Rooms, folder: Path, **variables: str) -> Iterator[Page]:
    """The app in the server's room, a browser in the client's; only TCP by way of the middle joins them."""
    wav = folder / "microphone.wav"
    soundfile.write(wav, clicks(7.0), 48_000)
    with ExitStack() as stack:
        with rooms.server.inside():
            url = stack.enter_context(served(*FLAGS, script=PROBE, PROBE_OUT=str(folder / "probe.json"), **variables))
        address = stack.enter_context(forwarded(rooms.middle, int(url.rpartition(":")[2])))
        stack.enter_context(rooms.client.inside())
        secure = f"--unsafely-treat-insecure-origin-as-secure=http://{address}"
        yield stack.enter_context(browser_page(f"http://{address}/", wav, 1200, 1000, secure))


def _heard_frames(folder: Path) -> int:
    """How many frames the server has heard in its latest session."""
    time.sleep(1.1)  # many looks of the probe
    return int(json.loads((folder / "probe.json").read_text())["sessions"][-1]["counters"]["heard"])


@pytest.mark.timed
def test_the_talk_runs_by_relay_and_the_page_says_so(rooms: Rooms, tmp_path: Path) -> None:
    with coturn(rooms.middle, tmp_path, MIDDLE_OF_SERVER) as relay:
        turn = {"PERSONAPLEX_TURN_URLS": f"{relay.of_server},{relay.of_client}", "PERSONAPLEX_TURN_SECRET": SECRET}
        with _page_from_afar(rooms, tmp_path, **turn) as page:
            start_call(page)
            wait_for_text(page, "status", "Talking")
            wait_for_text(page, "path", "through a relay")
            page.wait_for_timeout(7000)
            delays = latencies_ms(*collected(page))
            stop_call(page)
            wait_for_text(page, "status", "lines free")
        assert len(delays) > 4 and np.median(delays) < 400, delays


def test_the_talk_moves_to_the_socket_by_itself_and_the_page_says_so(rooms: Rooms, tmp_path: Path) -> None:
    # The token would bring a relay, but nobody who mints one can be reached from in there.
    with _page_from_afar(rooms, tmp_path, HF_TOKEN="hf_of_nobody") as page:
        said_before_the_click = wait_for_text(page, "network-notice", "TURN service could not be reached")
        began = time.monotonic()
        start_call(page, wait_connected=False)
        wait_for_text(page, "status", "Talking", 20_000)
        took_seconds = time.monotonic() - began
        wait_for_text(page, "path", "the socket")
        first = _heard_frames(tmp_path)
        later = _heard_frames(tmp_path)
        stop_call(page)
        wait_for_text(page, "status", "lines free")
    assert "socket" in said_before_the_click and "hf_of" not in said_before_the_click
    assert took_seconds < SOON_SECONDS
    assert later - first > 8  # 13 in a second and more
