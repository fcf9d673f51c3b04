"""Tells when somebody says the same word or phrase over and over, one right after another. Pure.

In: text in pieces, each with its frame. Out: the phrase, whenever it was said once too often within some seconds.
Only what follows upon itself counts: "twenty one, twenty two, ..." and "and the ... and the ..." are ordinary speech.
Must not know: tokens, sampling, who speaks.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from personaplex_app.audio import FRAME_SECONDS

MOST_TIMES = 4
WINDOW_SECONDS = 5.0
LONGEST_PHRASE_WORDS = 6
WORD_END_FRAMES = 3  # so many frames without a letter end a word; the next space does too
MOST_LETTERS = 100  # in bytes; a word that goes on and on is cut there

WINDOW_FRAMES = int(WINDOW_SECONDS / FRAME_SECONDS)
_TIMES = MOST_TIMES + 1
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True)
class _Said:
    word: str
    shown: str
    frame: int


class Repeats:
    """Listens to one speaker's text."""

    def __init__(self) -> None:
        self._words: deque[_Said] = deque(maxlen=LONGEST_PHRASE_WORDS * _TIMES)
        self._letters = bytearray()
        self._began = 0
        self._quiet_frames = 0

    def clear(self) -> None:
        """Forgets what was said."""
        self._words.clear()
        self._letters.clear()

    def saw(self, piece: bytes, frame: int) -> str:
        """One frame's UTF-8, empty for none; returns the phrase that was just said more than 4 times within 5 s."""
        if not piece:
            self._quiet_frames += 1
            return self._end_word() if self._quiet_frames == WORD_END_FRAMES else ""
        self._quiet_frames = 0
        ends = piece.startswith(b" ") or len(self._letters) >= MOST_LETTERS
        phrase = self._end_word() if ends else ""
        if not self._letters:
            self._began = frame
        self._letters += piece
        return phrase

    def _end_word(self) -> str:
        """What stands between two spaces may be several words: "no-no-no"."""
        phrase = ""
        for shown in _WORD.findall(self._letters.decode("utf-8", "ignore")):
            self._words.append(_Said(shown.casefold(), shown, self._began))
            phrase = self._repeated() or phrase
        self._letters.clear()
        return phrase

    def _repeated(self) -> str:
        said = list(self._words)
        for length in range(1, min(LONGEST_PHRASE_WORDS, len(said) // _TIMES) + 1):
            run = said[-_TIMES * length :]
            words = [each.word for each in run]
            if words == words[:length] * _TIMES and run[-1].frame - run[0].frame <= WINDOW_FRAMES:
                return " ".join(each.shown for each in run[:length])
        return ""
