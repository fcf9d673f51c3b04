"""What the engine needs of a stepper; `model/stepper.py` and `engine/echo.py` meet it.

Must not know: who implements it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, Protocol

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.window import Window


class StepResult(Protocol):
    """One slot's share of one step: float32 [1920], a text token, and whether the numbers were finite."""

    @property
    def pcm(self) -> Pcm: ...

    @property
    def text_token(self) -> int: ...

    @property
    def healthy(self) -> bool: ...


class SavedSlot(Protocol):
    """A copy of all that a slot holds; nothing that a step does changes it.

    `to_host` and `to_device` run on any thread and never hold up the tick thread; where there is nothing to move
    they give the copy itself.
    """

    @property
    def bytes(self) -> int:
        """Memory that it takes."""

    def to_host(self) -> SavedSlot:
        """The same in the host's memory."""

    def to_device(self) -> SavedSlot:
        """The same where a slot can take it from at once."""


class LearnedVoice(Protocol):
    """A voice made of sound; what it holds is the stepper's."""

    @property
    def bytes(self) -> int:
        """Memory that it takes."""


class Stepper(Protocol):
    """B slots that each turn a heard frame into a spoken one.

    `open` and `voice_pieces` may run on any thread and raise InvalidInput; all else runs on the tick thread alone.
    """

    @property
    def slots(self) -> int: ...

    @property
    def voice_names(self) -> list[str]: ...

    @property
    def voice_seconds(self) -> float:
        """How much of a voice's sound it listens to at most; 0 where nothing speaks with a voice."""

    @property
    def has_words(self) -> bool:
        """Whether whoever speaks has words; where not, a talk without them is no silence."""

    @property
    def window(self) -> Window | None:
        """How far back it remembers; None where it remembers nothing."""

    def used(self, slot: int) -> int:
        """Positions that a slot has gone through; fewer than before where its past was made shorter."""

    def open(self, choices: Choices, voice: Any = None) -> Any:
        """Everything that can be prepared without the device's state; what comes back is handed to `prime`.

        Args:
            voice: what `voice_pieces` came to, in place of the voice that the choices name.
        """

    def voice_pieces(self, pcm: Pcm) -> Generator[None, None, LearnedVoice]:
        """Makes a voice of sound, float32 [n] at 24 kHz, in pieces; what it returns is handed to `open`."""

    def prime(self, slot: int, opening: Any) -> None:
        """Puts a conversation's beginning into a slot."""

    def prime_pieces(self, slot: int, opening: Any) -> Iterator[None]:
        """The same in pieces, between which other slots may step; nothing is done before the first is asked for."""

    def step(self, heard: Mapping[int, Pcm]) -> Mapping[int, StepResult]:
        """One frame for each slot named; the others rest."""

    def set_sampling(self, slot: int, sampling: SamplingSettings) -> None:
        """New sampling from the slot's next step on."""

    def text(self, token: int) -> bytes:
        """UTF-8 bytes of a text token; empty for padding."""

    def save(self, slot: int) -> SavedSlot:
        """A copy of a slot, made where the slot lies."""

    def restore(self, slot: int, saved: Any) -> None:
        """Puts a copy that `save` of this stepper gave into any slot, which goes on exactly as the original would."""

    def release(self, slot: int) -> None:
        """Wipes a slot."""
