"""Voices that visitors brought: in memory for an hour at most, found by their owners alone. Pure but for the clock.

In: learned voices with their owners. Out: the same, by owner and name. Nothing is ever written to a disk.
It lives on the server's event loop alone. Must not know: sound, the engine's inside, routes.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from personaplex_app.engine.ports import LearnedVoice
from personaplex_app.errors import InvalidInput, NoCapacity
from personaplex_app.voices import OWN_PREFIX, check_voice_name, is_own_voice

KEPT_SECONDS = 3600.0
MOST_OF_ONE = 3
MOST_BYTES = 16 << 20  # of all voices together: several hundred
NAME_BYTES = 8  # nobody guesses them, and a guess would not help


@dataclass(frozen=True)
class OwnVoice:
    """One voice.

    Attributes:
        seconds: of sound that it was made of. notes: what the visitor was told of it. until: on the store's clock.
    """

    name: str
    visitor: str
    learned: LearnedVoice
    seconds: float
    notes: tuple[str, ...]
    until: float


class OwnVoices:
    """All of one server.

    Args:
        clock: seconds, steady. kept_seconds: how long a voice is kept. most_of_one: a visitor's voices at once.
        most_bytes: of all voices; beyond it the oldest are dropped.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        kept_seconds: float = KEPT_SECONDS,
        most_of_one: int = MOST_OF_ONE,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.kept_seconds = kept_seconds
        self._clock = clock
        self._most_of_one = most_of_one
        self._most_bytes = most_bytes
        self._voices: dict[str, OwnVoice] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._voices)

    @property
    def bytes(self) -> int:
        """Memory that they take."""
        return sum(voice.learned.bytes for voice in self._voices.values())

    def check_room(self, visitor: str) -> None:
        """Raises NoCapacity where a visitor has as many voices as one may have."""
        if len(self.of(visitor)) >= self._most_of_one:
            raise NoCapacity(
                f"You have {self._most_of_one} voices of your own, and more are not kept; delete one first.",
                code="too_many_voices",
            )

    def keep(self, visitor: str, learned: LearnedVoice, seconds: float, notes: tuple[str, ...] = ()) -> OwnVoice:
        """A new voice under a name of its own; raises NoCapacity as `check_room`."""
        self.check_room(visitor)
        name = f"{OWN_PREFIX}{secrets.token_hex(NAME_BYTES)}"
        voice = OwnVoice(name, visitor, learned, seconds, notes, self._clock() + self.kept_seconds)
        self._voices[name] = voice
        while self.bytes > self._most_bytes and len(self._voices) > 1:
            del self._voices[next(iter(self._voices))]
        return voice

    def of(self, visitor: str | None) -> list[OwnVoice]:
        """A visitor's voices, the oldest first; a stranger has none."""
        self.sweep()
        return [voice for voice in self._voices.values() if visitor is not None and voice.visitor == visitor]

    def find(self, visitor: str | None, name: str) -> OwnVoice:
        """A visitor's voice by name.

        Raises InvalidInput (code `unknown_voice`) in the same words for one that never was, that is no more, and that
        is somebody else's.
        """
        check_voice_name(name)
        for voice in self.of(visitor):
            if voice.name == name:
                return voice
        raise InvalidInput(
            f"There is no voice {name} of yours; your own voices are kept for an hour at most, for the browser they "
            f"were made in.",
            code="unknown_voice",
        )

    def check(self, visitor: str | None, name: str) -> None:
        """Raises as `find` for a name that can only be an own voice and is none of this visitor's."""
        if is_own_voice(name):
            self.find(visitor, name)

    def learned(self, visitor: str | None, name: str) -> LearnedVoice | None:
        """What a talk that begins now speaks with; None where the name is none of an own voice. Raises as `find`."""
        return self.find(visitor, name).learned if is_own_voice(name) else None

    def delete(self, visitor: str | None, name: str) -> None:
        """No more of it; raises as `find`."""
        del self._voices[self.find(visitor, name).name]

    def left_seconds(self, voice: OwnVoice) -> float:
        """How long a voice will be kept."""
        return max(0.0, voice.until - self._clock())

    def sweep(self) -> None:
        """Drops what is too old."""
        now = self._clock()
        for voice in list(self._voices.values()):
            if voice.until <= now:
                del self._voices[voice.name]
