"""Microphone and loudspeaker through a sounddevice of our own making, as no test machine has a sound card."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from personaplex_app.errors import InvalidInput
from personaplex_app.live_sound import MOST_WAITING_SAMPLES, LiveSound


class PortAudioError(Exception):
    """As sounddevice has it."""


class Card:
    """Stands in for the package; keeps the open stream's callback for the test to call."""

    PortAudioError = PortAudioError

    def __init__(self, broken: bool = False) -> None:
        self.calls: list[str] = []
        self.broken = broken
        self.options: dict[str, Any] = {}

    def _open(self, kind: str, callback: Any, **options: Any) -> Any:
        if self.broken:
            raise PortAudioError("Error querying device -1")
        self.calls.append(kind)
        self.callback, self.options = callback, options
        return SimpleNamespace(
            **{name: lambda name=name: self.calls.append(name) for name in ("start", "stop", "close")}
        )

    def Stream(self, **options: Any) -> Any:
        return self._open("both", **options)

    def OutputStream(self, **options: Any) -> Any:
        return self._open("out", **options)

    def play(self, samples: int = 480) -> np.ndarray:
        """What the card asks of an output stream."""
        played = np.ones((samples, 1), dtype=np.float32)
        self.callback(played, samples, None, None)
        return played[:, 0]


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    card = Card()
    monkeypatch.setitem(sys.modules, "sounddevice", card)
    return card


def test_what_the_microphone_hears_comes_in_pieces(card: Card) -> None:
    async def story() -> None:
        with LiveSound(microphone=True) as live:
            said = np.full((480, 1), 0.25, dtype=np.float32)
            played = np.ones((480, 1), dtype=np.float32)
            card.callback(said, played, 480, None, None)
            said[:] = 9  # the card's buffer is its own again
            assert np.array_equal(await live.piece(), np.full(480, 0.25, dtype=np.float32))
            assert not played.any(), "nothing to play is silence"

    asyncio.run(story())
    assert card.calls == ["both", "start", "stop", "close"]
    assert (card.options["samplerate"], card.options["channels"], card.options["dtype"]) == (24_000, 1, "float32")


def test_what_is_played_is_played_in_order_without_holes(card: Card) -> None:
    async def story() -> None:
        with LiveSound(microphone=False) as live:
            live.play(np.arange(700, dtype=np.float32))
            live.play(np.arange(700, 1000, dtype=np.float32))
            heard = np.concatenate([card.play() for _ in range(3)])
            assert np.array_equal(heard[:1000], np.arange(1000)) and not heard[1000:].any()

    asyncio.run(story())
    assert card.calls[0] == "out"


def test_a_loudspeaker_that_stands_still_keeps_the_newest_second(card: Card) -> None:
    async def story() -> None:
        with LiveSound(microphone=False) as live:
            for number in range(30):
                live.play(np.full(1920, number, dtype=np.float32))
            heard = card.play(2 * MOST_WAITING_SAMPLES)
            assert heard[0] == 18 and heard[MOST_WAITING_SAMPLES - 1920] == 29

    asyncio.run(story())


@pytest.mark.parametrize(("microphone", "what"), [(True, "microphone or loudspeaker"), (False, "No loudspeaker")])
def test_a_machine_without_a_sound_card_says_so(card: Card, microphone: bool, what: str) -> None:
    card.broken = True

    async def story() -> None:
        with pytest.raises(InvalidInput, match=what):
            LiveSound(microphone)

    asyncio.run(story())


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)

    async def story() -> None:
        with pytest.raises(InvalidInput, match="libportaudio2"):
            LiveSound(microphone=True)

    asyncio.run(story())
