"""A talk held from a terminal: who speaks, who listens, and what is written meanwhile.

In: a `client.Talk`, a sound to say or a microphone. Out: words and status lines, and a track of what was heard.
Must not know: flags, files, sockets.
"""

from __future__ import annotations

import time
from typing import TextIO

import numpy as np

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm, silence
from personaplex_app.client import (
    Echo,
    Event,
    Guard,
    Notice,
    Reconnecting,
    Refused,
    Talk,
    TalkState,
    Turn,
    Waiting,
    Words,
)
from personaplex_app.client.timeline import Timeline
from personaplex_app.live_sound import LiveSound

CUSHION_SECONDS = 0.06
QUIET_RMS = 0.003
QUIET_SECONDS = 3.0  # a persona that says nothing for so long has finished
MOST_TAIL_SECONDS = 60.0
TAIL_SAMPLES = SAMPLE_RATE_HZ // 5


class Ear:
    """Listens to a talk: keeps a track of it, plays it where there is a loudspeaker."""

    def __init__(self, talk: Talk, live: LiveSound | None) -> None:
        self.timeline = Timeline(CUSHION_SECONDS)
        self.begun = False
        self._began = time.monotonic()
        self._talk = talk
        self._live = live
        self._loud_at = self._began

    def begin(self) -> None:
        """Now is the track's second 0."""
        self.begun = True
        self._began = time.monotonic()
        self.timeline = Timeline(CUSHION_SECONDS)

    @property
    def seconds(self) -> float:
        """How long the talk has lasted."""
        return time.monotonic() - self._began

    async def listen(self) -> None:
        """Until the talk is over; raises where it failed."""
        while (piece := await self._talk.receive()) is not None:
            now = time.monotonic()
            self.timeline.place(piece, now - self._began)
            if np.sqrt(np.mean(np.square(piece))) >= QUIET_RMS:
                self._loud_at = now
            if self._live is not None:
                self._live.play(piece)

    def quiet_seconds(self, since: float) -> float:
        """How long nothing has been heard, counted from a moment at the earliest."""
        return time.monotonic() - max(self._loud_at, since)


async def say_sound(talk: Talk, ear: Ear, pcm: Pcm, seconds: float | None) -> None:
    """Says float32 [n] and then silence: until the persona has finished too, or exactly so many seconds in all."""
    if seconds is not None:
        samples = round(seconds * SAMPLE_RATE_HZ)
        await talk.say(np.pad(pcm, (0, max(0, samples - len(pcm))))[:samples])
        return
    await talk.say(pcm)
    said_at = time.monotonic()
    while ear.quiet_seconds(said_at) < QUIET_SECONDS and time.monotonic() - said_at < MOST_TAIL_SECONDS:
        await talk.say(silence(TAIL_SAMPLES))


async def say_live(talk: Talk, live: LiveSound, seconds: float | None) -> None:
    """Sends what the microphone hears, for so many seconds or for ever."""
    until = None if seconds is None else time.monotonic() + seconds
    while until is None or time.monotonic() < until:
        await talk.send(await live.piece())


class Screen:
    """Words on one stream as they come, status lines on the other; each sentence once in a row."""

    def __init__(self, words: TextIO, status: TextIO) -> None:
        self._words = words
        self._status = status
        self._text = ""
        self._last = ""

    async def follow(self, talk: Talk) -> None:
        """Writes until the talk is over; raises where it failed."""
        async for event in talk:
            self.show(event, talk.begun)

    def show(self, event: Event, begun: bool) -> None:
        """One event; a refusal before the talk has begun is an error, told as such by whoever waits for the talk."""
        if isinstance(event, Words):
            self._add(event.text, event.from_start)
        elif isinstance(event, Waiting | Turn | TalkState | Guard | Echo | Notice | Reconnecting) or (
            isinstance(event, Refused) and begun
        ):
            self.tell(event.sentence)

    def _add(self, text: str, from_start: bool) -> None:
        if from_start and text.startswith(self._text):
            text, from_start = text[len(self._text) :], False
        self._words.write(f"\n{text}" if from_start else text)
        self._words.flush()
        self._text = text if from_start else self._text + text

    def tell(self, sentence: str) -> None:
        """A status line, unless it is the one that stands there already."""
        if sentence and sentence != self._last:
            self._last = sentence
            self._status.write(f"{sentence}\n")
            self._status.flush()

    def close(self) -> None:
        """Ends the line of words."""
        if self._text:
            self._words.write("\n")
            self._words.flush()
