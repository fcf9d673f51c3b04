"""The coach's ruler measures as a talk's opening does, voice by voice, and tells no echo's length."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from personaplex_app.assemble import build_stepper
from personaplex_app.coach import Ruler, advise
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.echo import EchoStepper
from personaplex_app.errors import InvalidInput
from personaplex_app.model.prompts import VoicePrompt
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.settings import EngineChoice
from personaplex_app.web.ruler import ruler_of, with_own_voices

PROMPTS = ["", "You are a wise and friendly teacher.", "word " * 200, "<system> already wrapped <system>", "emoji 😀"]


@pytest.fixture(scope="module")
def stepper(cache_outside_home: Path) -> SpeechStepper:
    return build_stepper(EngineChoice("mini", cache_outside_home, device="cpu"))


@pytest.fixture(scope="module")
def ruler(stepper: SpeechStepper) -> Ruler:
    found = ruler_of(stepper)
    assert found is not None and found.context == stepper.context
    return found


def test_positions_are_those_of_the_plan(stepper: SpeechStepper, ruler: Ruler) -> None:
    for voice in ("none", *stepper.voice_names):
        for prompt in PROMPTS:
            plan = stepper.open(Choices(prompt, voice, SamplingSettings(), 0)).plan
            length = advise(prompt, voice, ruler).length
            assert length is not None and (length.positions, length.tokens) == (plan.frames, plan.text_tokens)


def test_what_does_not_fit_is_what_a_talk_is_refused_for(stepper: SpeechStepper, ruler: Ruler) -> None:
    for words in range(300, 1000, 37):
        prompt = "word " * words
        advice = advise(prompt, "TINY0", ruler)
        try:
            stepper.open(Choices(prompt, "TINY0", SamplingSettings(), 0))
        except InvalidInput as error:
            assert not advice.fits and error.code == "prompt_too_long"
        else:
            assert advice.fits


def test_a_voice_that_is_not_there_is_named_each_time(ruler: Ruler) -> None:
    for _ in range(2):
        with pytest.raises(InvalidInput, match="There is no voice NATF9; this checkpoint has TINY0"):
            advise("Hello", "NATF9", ruler)


def test_a_visitor_s_own_voice_takes_its_own_frames(stepper: SpeechStepper, ruler: Ruler) -> None:
    learned = VoicePrompt(codes=torch.zeros(8, 41, dtype=torch.int64))
    mine = with_own_voices(ruler, stepper, {"own-1": learned})
    length, without, official = (advise("Hello", voice, mine).length for voice in ("own-1", "none", "TINY0"))
    assert length is not None and without is not None and official is not None
    assert length.positions == without.positions + 41
    assert official == advise("Hello", "TINY0", ruler).length
    assert with_own_voices(ruler, stepper, {}) is ruler
    with pytest.raises(InvalidInput, match="There is no voice own-1"):
        advise("Hello", "own-1", ruler)


def test_an_echo_has_no_ruler() -> None:
    assert ruler_of(EchoStepper()) is None
