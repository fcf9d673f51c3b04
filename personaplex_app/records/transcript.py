"""The transcript: text tokens at their frames become words at their seconds, in correct Unicode.

In: UTF-8 bytes of one token at a time, with the frame it came at; remarks on the talk. Out: words with start seconds,
the running text, the same in turns, the remarks.
Must not know: tokenizers, the web.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.records.turns import PersonaTurns


@dataclass(frozen=True)
class Word:
    """One word and when it began, in seconds since the talk began."""

    text: str
    start_seconds: float


@dataclass(frozen=True)
class Remark:
    """Something that was done to the talk and is no word of it.

    Attributes:
        action, reason: names, for programs. phrase: the words it is about, or empty. at_seconds: since the talk began.
    """

    action: str
    reason: str
    phrase: str
    sentence: str
    at_seconds: float


class Transcript:
    """Collects a talk's words; bytes that wait for the rest of their letter are held back, never shown broken.

    Attributes:
        turns: the words as they were said in one go.
    """

    def __init__(self) -> None:
        self.turns = PersonaTurns()
        self._words: list[tuple[int, bytearray]] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._remarks: list[Remark] = []

    def add(self, piece: bytes, frame: int) -> str:
        """Adds one token's bytes; a leading space begins a word. Returns the letters that became whole."""
        if not piece:
            return ""
        if piece.startswith(b" ") or not self._words:
            self._words.append((frame, bytearray()))
        self._words[-1][1].extend(piece)
        fresh = self._decoder.decode(piece)
        if not self._text:
            fresh = fresh.lstrip(" ")
        self._text += fresh
        self.turns.add(fresh, frame, piece.startswith(b" "))
        return fresh

    def note(self, action: str, reason: str, phrase: str, sentence: str, frame: int) -> None:
        """Adds a remark."""
        self._remarks.append(Remark(action, reason, phrase, sentence, round(frame * FRAME_SECONDS, 3)))

    @property
    def remarks(self) -> list[Remark]:
        """All remarks, in order."""
        return self._remarks[:]

    @property
    def text(self) -> str:
        """All that was said so far."""
        return self._text

    @property
    def words(self) -> list[Word]:
        """The words so far; a word of nothing but spaces is none."""
        found = [
            Word(letters.decode("utf-8", "replace").strip(), round(frame * FRAME_SECONDS, 3))
            for frame, letters in self._words
        ]
        return [word for word in found if word.text]
