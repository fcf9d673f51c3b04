"""Recordings that visitors asked for: in memory for an hour at most, found and deleted by their owners alone.

In: talks whose visitor consented. Out: recordings by owner and name. Nothing is ever written to a disk or a log.
It lives on the server's event loop alone. Must not know: consent, messages, routes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from personaplex_app.audio import FRAME_SECONDS, Pcm
from personaplex_app.controls import Choices
from personaplex_app.engine.session import Session
from personaplex_app.engine.talk_sampling import Applied
from personaplex_app.errors import InvalidInput, NoCapacity
from personaplex_app.records.kept_speech import KeptSpeech, kept_speech
from personaplex_app.records.kept_words import KeptWords, kept_words
from personaplex_app.records.recording import FRAME_BYTES, Recording, Room
from personaplex_app.records.speech_turns import SpeechTurns
from personaplex_app.records.turn_taking import YOU

KEPT_SECONDS = 3600.0
MOST_OF_ONE = 5
MOST_BYTES = 1 << 30
MOST_SECONDS = 30 * 60.0
LONGEST_SECONDS = 2 * 3600.0  # far below what a WAV file can hold
LEAST_SECONDS = 60.0  # less room is not worth beginning
NAME_BYTES = 12  # nobody guesses them, and a guess would not help
NONE_HERE = "This server keeps no recordings."
NO_ROOM = "The server's memory for recordings is full. Try again later; the talk goes on without one."


@dataclass(frozen=True)
class TalkOnRecord:
    """What a recording needs of its talk besides sound; a resumed talk's is the same."""

    session: Session
    speech: SpeechTurns


@dataclass
class Recorded:
    """One recording with what belongs to it; an onlooker.

    Attributes:
        talk: while it runs; None once it is over or cut off, and what was said later is not reached from here.
        until: on the store's clock, None while it goes on. applied: sampling that held, one after another.
    """

    name: str
    visitor: str
    sound: Recording
    choices: Choices
    talk: TalkOnRecord | None
    until: float | None = None
    deleted: bool = False
    applied: list[Applied] = field(default_factory=list)
    _words: KeptWords = field(default_factory=KeptWords)
    _speech: KeptSpeech = field(default_factory=KeptSpeech)

    @property
    def on(self) -> bool:
        """Whether it goes on."""
        return self.sound.on

    @property
    def start_seconds(self) -> float:
        """Where in the talk it begins."""
        return round((self.sound.first_frame or 0) * FRAME_SECONDS, 3)

    def saw(self, index: int, heard: Pcm, spoken: Pcm) -> None:
        """A frame; the sampling that held in it is noted with it."""
        if self.talk is None or not self.on:
            return
        self.sound.saw(index, heard, spoken)
        held = self.talk.session.applied
        if not self.applied or held is not self.applied[-1]:
            self.applied.append(held)
        if not self.on:
            self.settle()

    @property
    def words(self) -> KeptWords:
        """What was said in it so far."""
        if self.talk is None or self.sound.first_frame is None:
            return self._words
        transcript, speech = self.talk.session.transcript, self.talk.speech.speech(YOU)
        return kept_words(transcript, speech, self.sound.first_frame, len(self.sound))

    @property
    def speech(self) -> KeptSpeech:
        """Who spoke when in it so far."""
        if self.talk is None or self.sound.first_frame is None:
            return self._speech
        return kept_speech(self.talk.speech, self.sound.first_frame, len(self.sound))

    def settle(self) -> None:
        """It is over."""
        self.let_go()
        self.sound.on = False

    def let_go(self) -> None:
        """Its talk runs no more: nothing of it is held but this, and not what listened to it."""
        self._words, self._speech = self.words, self.speech
        self.talk = None

    def forget(self) -> None:
        """Nothing of it is left."""
        self.sound.erase()
        self.talk, self._words, self._speech = None, KeptWords(), KeptSpeech()
        self.applied.clear()


class Recordings:
    """All of one server.

    Args:
        most_bytes: of all together, 0 for none at all. most_seconds: of one. clock: seconds, steady.
        kept_seconds: how long one is kept after its end. most_of_one: a visitor's at once.
    """

    def __init__(
        self,
        most_bytes: int = MOST_BYTES,
        most_seconds: float = MOST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        kept_seconds: float = KEPT_SECONDS,
        most_of_one: int = MOST_OF_ONE,
    ) -> None:
        self.room = Room(most_bytes)
        self.most_seconds = min(most_seconds, LONGEST_SECONDS)
        self.kept_seconds = kept_seconds
        self.most_of_one = most_of_one
        self._clock = clock
        self._all: dict[str, Recorded] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._all)

    @property
    def bytes(self) -> int:
        """What their sound holds."""
        return self.room.bytes

    def check_room(self, visitor: str) -> None:
        """Raises NoCapacity in words where another recording of this visitor cannot begin."""
        if not self.room.most_bytes:
            raise NoCapacity(NONE_HERE, code="no_recordings")
        if len(self.of(visitor)) >= self.most_of_one:
            sentence = f"You have {self.most_of_one} recordings, and more are not kept; delete one first."
            raise NoCapacity(sentence, code="too_many_recordings")
        if self.room.left_bytes < LEAST_SECONDS / FRAME_SECONDS * FRAME_BYTES:
            raise NoCapacity(NO_ROOM, code="recordings_full")

    def begin(self, visitor: str, talk: TalkOnRecord) -> Recorded:
        """A new one, from the next frame on; raises as `check_room`."""
        self.check_room(visitor)
        sound = Recording(self.room, round(self.most_seconds / FRAME_SECONDS))
        one = Recorded(secrets.token_hex(NAME_BYTES), visitor, sound, talk.session.choices, talk)
        self._all[one.name] = one
        return one

    def rest(self, one: Recorded) -> None:
        """Its talk was cut off and may come back."""
        one.let_go()
        one.until = self._clock() + self.kept_seconds

    def go_on(self, one: Recorded, talk: TalkOnRecord) -> None:
        """Its talk came back."""
        one.talk, one.until = talk, None

    def end(self, one: Recorded) -> None:
        """It is over; one without a frame is not kept at all."""
        one.settle()
        if one.until is None:
            self.rest(one)
        if not len(one.sound):
            self._drop(one)

    def of(self, visitor: str | None) -> list[Recorded]:
        """A visitor's recordings, the oldest first; a stranger has none."""
        self.sweep()
        return [one for one in self._all.values() if visitor is not None and one.visitor == visitor]

    def find(self, visitor: str | None, name: str) -> Recorded:
        """A visitor's recording by name.

        Raises InvalidInput (code `unknown_recording`) in the same words for one that never was, that is no more, and
        that is somebody else's.
        """
        for one in self.of(visitor):
            if secrets.compare_digest(one.name.encode(), name.encode("utf-8", "replace")):
                return one
        raise InvalidInput(
            "There is no such recording of yours; recordings are kept for an hour at most, for the browser they were "
            "made in.",
            code="unknown_recording",
        )

    def delete(self, visitor: str | None, name: str) -> None:
        """No more of it, even in the midst of its talk; raises as `find`."""
        one = self.find(visitor, name)
        one.deleted = True
        self._drop(one)

    def _drop(self, one: Recorded) -> None:
        self._all.pop(one.name, None)
        one.forget()

    def left_seconds(self, one: Recorded) -> float | None:
        """How long it will be kept; None while it goes on."""
        return None if one.until is None else max(0.0, one.until - self._clock())

    @property
    def next_seconds(self) -> float | None:
        """When `sweep` will have something to drop; None while nothing is too old at any time."""
        ends = [one.until for one in self._all.values() if one.until is not None]
        return max(0.0, min(ends) - self._clock()) if ends else None

    def sweep(self) -> None:
        """Drops what is too old."""
        now = self._clock()
        for one in list(self._all.values()):
            if one.until is not None and one.until <= now:
                self._drop(one)
