"""What is kept of a recorded talk beside its sound: turns, words and remarks from its beginning to its end. Pure.

In: a transcript, each frame's yes or no of the visitor's speech, the recorded stretch in frames. Out: the same in
seconds of the recording; nothing that was said before it or after it. Must not know: sound, the web.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from personaplex_app.records.transcript import Remark, Transcript, Word
from personaplex_app.records.turns import Marks, Turn, VisitorTurns, seconds_at


@dataclass(frozen=True)
class KeptWords:
    """In order of time, in seconds of the recording."""

    turns: tuple[Turn, ...] = ()
    words: tuple[Word, ...] = ()
    remarks: tuple[Remark, ...] = ()


def kept_words(transcript: Transcript, speech: Marks, first_frame: int, frames: int) -> KeptWords:
    """What belongs to `frames` frames of a talk from `first_frame` on."""
    start, end = seconds_at(first_frame), seconds_at(first_frame + frames)
    words = [word for word in transcript.words if start <= word.start_seconds < end]
    remarks = [remark for remark in transcript.remarks if start <= remark.at_seconds < end]
    visitor = VisitorTurns()
    visitor.follow(speech)
    turns = [*transcript.turns.turns(first_frame + frames, over=True), *visitor.turns(first_frame + frames, over=True)]
    cut = [found for turn in turns if (found := _cut(turn, words, start, end)) is not None]
    return KeptWords(
        turns=tuple(_renumbered(sorted(cut, key=lambda turn: (turn.start_seconds, turn.who)))),
        words=tuple(replace(word, start_seconds=_since(start, word.start_seconds)) for word in words),
        remarks=tuple(replace(remark, at_seconds=_since(start, remark.at_seconds)) for remark in remarks),
    )


def _cut(turn: Turn, words: list[Word], start: float, end: float) -> Turn | None:
    """What of a turn lies in the stretch; of one that began before it or ends after it, only the words in it."""
    last = turn.end_seconds if turn.end_seconds is not None else end
    if last <= start or turn.start_seconds >= end:
        return None
    text = turn.text
    if text and (turn.start_seconds < start or last > end):
        text = " ".join(word.text for word in words if turn.start_seconds <= word.start_seconds < last)
        if not text:
            return None
    begins = max(start, turn.start_seconds)
    return replace(turn, text=text, start_seconds=_since(start, begins), end_seconds=_since(start, min(last, end)))


def _renumbered(turns: Iterable[Turn]) -> list[Turn]:
    counts: dict[str, int] = {}
    found = []
    for turn in turns:
        number = counts.get(turn.who, 0)
        counts[turn.who] = number + 1
        found.append(replace(turn, number=number))
    return found


def _since(start: float, seconds: float) -> float:
    return round(seconds - start, 3)
