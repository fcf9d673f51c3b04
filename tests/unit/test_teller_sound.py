"""A client that tells what it has heard is never sent more than it can hear soon; one that does not is trusted."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from personaplex_app.audio import silence
from personaplex_app.engine.talk_queues import SpokenFrame
from personaplex_app.web.teller import MOST_UNHEARD_FRAMES, Teller


class Socket:
    """Takes everything, as buffers do."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def send_bytes(self, sound: bytes) -> None:
        self.sent.append(sound)


class Talk:
    """Counts what was left out."""

    left_out = 0

    def leave_out(self) -> None:
        self.left_out += 1


def _say(teller: Teller, frames: int) -> None:
    async def story() -> None:
        for index in range(frames):
            await teller._send_sound(SpokenFrame(silence(), index, silence()))

    asyncio.run(story())


def _teller() -> tuple[Teller, Socket, Talk]:
    socket, talk = Socket(), Talk()
    return Teller(cast(Any, socket), cast(Any, None), cast(Any, None), cast(Any, talk)), socket, talk


def test_who_tells_nothing_is_sent_everything() -> None:
    teller, socket, talk = _teller()
    _say(teller, 200)
    assert len(socket.sent) == 200 and talk.left_out == 0 and len(socket.sent[0]) == 3840


def test_who_hears_late_is_left_out_until_it_has_caught_up() -> None:
    teller, socket, talk = _teller()
    teller.heard(0)
    _say(teller, 100)
    assert len(socket.sent) == MOST_UNHEARD_FRAMES and talk.left_out == 100 - MOST_UNHEARD_FRAMES
    teller.heard(10)
    _say(teller, 100)
    assert len(socket.sent) == MOST_UNHEARD_FRAMES + 10
    for _ in range(100):
        teller.heard(len(socket.sent))
        _say(teller, 1)
    assert len(socket.sent) == MOST_UNHEARD_FRAMES + 110


def test_a_client_that_claims_to_have_heard_more_than_there_was_gains_nothing() -> None:
    teller, socket, _ = _teller()
    teller.heard(10**9)
    _say(teller, 100)
    assert len(socket.sent) == MOST_UNHEARD_FRAMES
