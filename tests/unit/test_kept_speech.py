"""Who spoke when in a recorded stretch is what it would have been had the talk been that stretch alone."""

from __future__ import annotations

import numpy as np

from personaplex_app.records.kept_speech import KeptSpeech, kept_speech
from personaplex_app.records.speech_gate import Decision
from personaplex_app.records.speech_turns import SpeechTurns
from personaplex_app.records.turn_taking import PERSONA, SIDES, YOU
from personaplex_app.records.xray import xray


def spoken(frames: int, begin: int = 0) -> SpeechTurns:
    """A talk in which both sides take turns, from a frame of it on."""
    spoke = SpeechTurns()
    for frame in range(begin, begin + frames):
        speaks = {YOU: frame % 60 < 20, PERSONA: 25 <= frame % 60 < 50}
        for side in SIDES:
            spoke.decided(side, frame - begin, Decision(speaks[side], 0, -20.0 if speaks[side] else -70.0))
    return spoke


def test_a_stretch_has_the_figures_of_a_talk_of_its_own() -> None:
    whole = spoken(400)
    assert xray(kept_speech(whole, 0, 400).turns()) == xray(whole)
    assert xray(kept_speech(whole, 110, 150).turns()) == xray(spoken(150, begin=110))


def test_nothing_before_or_after_it_is_kept() -> None:
    kept = kept_speech(spoken(400), 110, 150)
    assert {side: len(kept.speech[side]) for side in SIDES} == {YOU: 150, PERSONA: 150}
    assert all(array.base is None for array in (*kept.speech.values(), *kept.levels_db.values())), "a copy, no view"


def test_an_empty_one_says_nothing() -> None:
    assert xray(KeptSpeech().turns()) is None
    assert np.array_equal(kept_speech(SpeechTurns(), 0, 10).turns().speech(YOU), np.zeros(0, dtype=bool))
