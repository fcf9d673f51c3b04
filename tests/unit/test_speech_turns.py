"""Who speaks when, from scripted decisions and from real speech in noise."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from support.decisions import NO, YES, scripted
from support.speech import pause, speak

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS, Pcm, silence
from personaplex_app.records.speech_gate import MOST_BACK, Decision, SpeechGate
from personaplex_app.records.speech_turns import SpeechTurns, Turn
from personaplex_app.records.turn_taking import PERSONA, YOU
from personaplex_app.records.turns import MOST_BACK_FRAMES
from personaplex_app.speech_detector import SpeechDetector


def frames_of(pcm: Pcm) -> Iterable[Pcm]:
    whole = len(pcm) // FRAME_SAMPLES
    return pcm[: whole * FRAME_SAMPLES].reshape(whole, FRAME_SAMPLES)


def decided(gate: SpeechGate, pcm: Pcm) -> np.ndarray:
    found: list[bool] = []
    for frame in frames_of(pcm):
        decision = gate.saw(frame)
        found[len(found) - decision.before :] = [True] * decision.before
        found.append(decision.speech)
    return np.array(found)


def test_turns_come_with_their_seconds_and_the_running_one_is_open() -> None:
    turns = scripted(you="####      ######          ", persona="            " + " " * 4 + "########")
    assert turns.turns == [
        Turn(YOU, 0.0, 16 * FRAME_SECONDS),  # the pause of 0.48 s belongs to it
        Turn(PERSONA, 16 * FRAME_SECONDS, 24 * FRAME_SECONDS, open=True),
    ]
    assert not turns.speaks(YOU) and turns.since(YOU) is None
    assert turns.speaks(PERSONA) and turns.since(PERSONA) == 1.28
    assert turns.frames == 26


def test_a_single_loud_frame_is_a_click() -> None:
    turns = scripted(you="    #             ##        ")
    assert [(turn.start_seconds, turn.end_seconds) for turn in turns.turns] == [(1.44, 1.6)]
    assert np.flatnonzero(turns.speech(YOU)).tolist() == [18, 19]


def test_what_was_found_late_began_earlier() -> None:
    turns = SpeechTurns()
    for index, decision in enumerate([NO, NO, NO, Decision(True, 2, -20.0), YES]):
        turns.decided(YOU, index, decision)
    assert turns.speech(YOU).tolist() == [False, True, True, True, True]
    assert turns.since(YOU) == 0.08
    assert MOST_BACK_FRAMES >= MOST_BACK  # those who follow the decisions look back so far


class Slow:
    """A detector that is sure late."""

    def __init__(self, sure_after: int) -> None:
        self._sure_after = sure_after

    def heard(self, pcm: Pcm) -> bool:
        self._sure_after -= 1
        return self._sure_after < 0

    def forget(self) -> None:
        """Goes on."""


def test_a_detector_that_is_sure_late_is_right_for_the_frames_before() -> None:
    turns = SpeechTurns(Slow(4))
    loud = np.full(FRAME_SAMPLES, 0.1, dtype=np.float32)
    for index, frame in enumerate([silence(), silence(), loud, loud, loud]):
        turns.saw(index, frame, silence())
    assert not turns.speaks(YOU)
    for index in range(5, 8):
        turns.saw(index, loud, silence())
    assert turns.since(YOU) == 0.16


def test_frames_that_are_missing_are_silent_and_one_that_comes_late_changes_nothing() -> None:
    turns = SpeechTurns()
    loud = np.full(FRAME_SAMPLES, 0.1, dtype=np.float32)
    for index in (0, 1, 2, 20, 21):
        turns.saw(index, silence(), loud if index else silence())
    assert [(turn.side, turn.start_seconds) for turn in turns.turns][:1] == [(PERSONA, 0.08)]
    assert turns.frames == 22 and not turns.speech(PERSONA)[3:20].any()
    assert turns.levels_db(PERSONA)[[2, 10]].tolist() == [-20, -99]
    turns.saw(20, loud, silence())
    assert turns.frames == 22 and not turns.speech(YOU).any() and turns.speech(PERSONA)[20]


def noises(samples: int) -> dict[str, Pcm]:
    rng = np.random.default_rng(0)
    hiss = rng.standard_normal(samples).astype(np.float32)
    clicks = np.zeros(samples, dtype=np.float32)
    for at in range(3000, samples - 2400, 5300):
        clicks[at : at + 2400] = 0.05 * hiss[:2400] * np.exp(-np.arange(2400) / 400)
    hum = np.sin(2 * np.pi * 100 * np.arange(samples) / 24_000).astype(np.float32)
    return {"silence": 0 * hiss, "hiss": 0.003 * hiss, "clicks": clicks, "hum": 0.01 * hum}


def test_speech_is_found_among_noises_and_noises_are_not_speech() -> None:
    said = [speak("What would that cost, and when can I bring it?"), speak("I see, thank you.")]
    clean = np.concatenate([pause(1.6), said[0], pause(1.6), said[1], pause(1.6)])
    levels = np.array([np.abs(frame).max() for frame in frames_of(clean)])
    near = np.convolve(levels > 0.01, np.ones(9), "same") > 0
    for name, noise in noises(len(clean)).items():
        found = decided(SpeechGate(SpeechDetector()), clean + noise)
        assert found[levels > 0.05].mean() > 0.9, name
        assert found[~near].mean() < 0.05, name
        turns = SpeechTurns(SpeechDetector())
        for index, frame in enumerate(frames_of(clean + noise)):
            turns.saw(index, frame, silence())
        starts = [turn.start_seconds for turn in turns.turns]
        loud = np.flatnonzero(levels > 0.02)
        truth = loud[[0, 1 + int(np.argmax(np.diff(loud)))]] * FRAME_SECONDS
        assert np.allclose(starts, truth, atol=0.3), (name, starts, truth)
