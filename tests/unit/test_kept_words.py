"""Of a talk that was recorded in part only that part's words are kept, at its own times."""

from __future__ import annotations

import pytest

from personaplex_app.records.kept_words import KeptWords, kept_words
from personaplex_app.records.transcript import Remark, Transcript, Word
from personaplex_app.records.turn_taking import PERSONA, YOU
from personaplex_app.records.turns import Turn

SPEECH = [frame in range(20, 30) or frame in range(70, 80) for frame in range(100)]


@pytest.fixture
def transcript() -> Transcript:
    """Words at frames 0, 5, 10; 50, 55; remarks at 8 and 60."""
    transcript = Transcript()
    for frame, piece in ((0, b" One"), (5, b" two"), (10, b" three."), (50, b" Four"), (55, b" five.")):
        transcript.add(piece, frame)
    for frame in (8, 60):
        transcript.note("noticed", "repeats", "x", "It repeats itself.", frame)
    return transcript


def test_a_recording_of_all_holds_all(transcript: Transcript) -> None:
    assert kept_words(transcript, SPEECH, 0, 100) == KeptWords(
        turns=(
            Turn(PERSONA, 0, "One two three.", 0.0, 0.88),
            Turn(YOU, 0, "", 1.6, 2.4),
            Turn(PERSONA, 1, "Four five.", 4.0, 4.48),
            Turn(YOU, 1, "", 5.6, 6.4),
        ),
        words=(Word("One", 0.0), Word("two", 0.4), Word("three.", 0.8), Word("Four", 4.0), Word("five.", 4.4)),
        remarks=(
            Remark("noticed", "repeats", "x", "It repeats itself.", 0.64),
            Remark("noticed", "repeats", "x", "It repeats itself.", 4.8),
        ),
    )


def test_what_was_said_before_the_consent_and_after_the_end_is_not_kept(transcript: Transcript) -> None:
    kept = kept_words(transcript, SPEECH, 5, 46)  # 0.4 s to 4.08 s
    assert kept.turns == (
        Turn(PERSONA, 0, "two three.", 0.0, 0.48),
        Turn(YOU, 0, "", 1.2, 2.0),
        Turn(PERSONA, 1, "Four", 3.6, 3.68),
    )
    assert kept.words == (Word("two", 0.0), Word("three.", 0.4), Word("Four", 3.6))
    assert kept.remarks == (Remark("noticed", "repeats", "x", "It repeats itself.", 0.24),)


def test_a_stretch_in_which_nothing_was_said_holds_nothing(transcript: Transcript) -> None:
    assert kept_words(transcript, SPEECH, 32, 10) == KeptWords()
