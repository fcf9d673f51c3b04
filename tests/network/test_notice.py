"""What a visitor is told of the network before the click, by a server that has none."""

from __future__ import annotations

import json
import time
import urllib.request

from support.netns import Room, needs_namespaces
from support.served import served

pytestmark = needs_namespaces

SOON_SECONDS = 10.0


def test_a_relay_that_cannot_be_had_is_said_before_anybody_asks_for_it() -> None:
    room = Room("alone")
    try:
        with room.inside(), served("--engine", "echo", SPACE_ID="some/space", HF_TOKEN="hf_of_nobody") as url:
            until = time.monotonic() + SOON_SECONDS
            notice = ""
            while not notice and time.monotonic() < until:
                time.sleep(0.2)
                with urllib.request.urlopen(f"{url}/talk/lines", timeout=5) as answer:
                    notice = json.load(answer)["notice"]
    finally:
        room.remove()
    assert "TURN service could not be reached" in notice and "socket" in notice and "hf_of" not in notice
