"""A voice learned between ticks is the one that `render --voice FILE` would make, and disturbs no talk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support.engine import until

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS, SAMPLE_RATE_HZ, Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.codec import load_codec, random_codec
from personaplex_app.model.config import AGENT
from personaplex_app.model.listener import Listener
from personaplex_app.model.prompts import VoicePrompt
from personaplex_app.model.stepper import SpeechStepper, Step
from personaplex_app.model.voice_file import encode_voice
from personaplex_app.settings import EngineChoice
from personaplex_app.sound_files import read_sound

GREEDY = SamplingSettings().greedy()
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def voice_pcm() -> Pcm:
    return read_sound(Path(__file__).parents[1] / "fixtures" / "custom_voice.wav")


@pytest.fixture(scope="module")
def stepper(tmp_path_factory: pytest.TempPathFactory) -> SpeechStepper:
    return build_stepper(EngineChoice("mini", tmp_path_factory.mktemp("cache"), "cpu", slots=2))


def _choices(voice: str = "TINY0", prompt: str = "hello") -> Choices:
    return Choices(prompt, voice, GREEDY, 1)


def _heard(number: int) -> Pcm:
    return (0.1 * np.random.default_rng(number).standard_normal(FRAME_SAMPLES)).astype(np.float32)


def _steps(
    stepper: SpeechStepper, frames: int, between: Iterable[None] = (), voice: VoicePrompt | None = None
) -> list[Step]:
    """A talk in slot 0; after each step one of what is to be done between is done."""
    work = iter(between)
    stepper.prime(0, stepper.open(_choices(), voice))
    steps = []
    for number in range(frames):
        steps.append(stepper.step({0: _heard(number)})[0])
        next(work, None)
    stepper.release(0)
    return steps


def _tokens(
    stepper: SpeechStepper, frames: int, between: Iterable[None] = (), voice: VoicePrompt | None = None
) -> list[list[int]]:
    return [step.tokens.tolist() for step in _steps(stepper, frames, between, voice)]


def _learned(stepper: SpeechStepper, pcm: Pcm) -> VoicePrompt:
    with Engine(stepper) as engine:
        voice = engine.learn_voice(pcm)
    assert isinstance(voice, VoicePrompt)
    return voice


def test_a_voice_learned_by_the_engine_is_the_one_of_the_file(
    stepper: SpeechStepper, voice_pcm: Pcm, reference: Mapping[str, np.ndarray], mini_checkpoint: Checkpoint
) -> None:
    voice = _learned(stepper, voice_pcm)
    alone = encode_voice(voice_pcm, load_codec(mini_checkpoint.codec, mini_checkpoint.config, CPU, 1), stepper.config)
    assert voice.codes is not None and torch.equal(voice.codes, alone.codes)
    assert voice.codes.shape == reference["voicewav_codes"].shape
    assert voice.bytes == voice.codes.numel() * 8


def test_one_voice_after_another_leaves_nothing_of_the_first(stepper: SpeechStepper, voice_pcm: Pcm) -> None:
    first = _learned(stepper, voice_pcm)
    other = _learned(stepper, voice_pcm[::-1].copy())
    again = _learned(stepper, voice_pcm)
    assert torch.equal(first.codes, again.codes) and not torch.equal(first.codes, other.codes)


def test_a_voice_that_is_given_up_leaves_nothing_either(stepper: SpeechStepper, voice_pcm: Pcm) -> None:
    first = _learned(stepper, voice_pcm)
    pieces = stepper.voice_pieces(voice_pcm[::-1].copy())
    for _ in range(5):
        next(pieces)
    pieces.close()
    assert torch.equal(_learned(stepper, voice_pcm).codes, first.codes)


def test_learning_between_the_steps_of_a_talk_changes_none_of_its_tokens(
    stepper: SpeechStepper, voice_pcm: Pcm
) -> None:
    alone = _tokens(stepper, 40)
    pieces = stepper.voice_pieces(voice_pcm)
    assert _tokens(stepper, 40, pieces) == alone
    with pytest.raises(StopIteration) as end:
        while True:
            next(pieces)
    assert torch.equal(end.value.value.codes, _learned(stepper, voice_pcm).codes), "nor the talk any of the voice"


def test_a_talk_with_an_own_voice_is_the_talk_with_that_voice(stepper: SpeechStepper, voice_pcm: Pcm) -> None:
    voice = _learned(stepper, voice_pcm)
    opening = stepper.open(_choices("own-0123456789abcdef"), voice)
    agent = opening.plan.grid[AGENT]
    assert torch.equal(agent[0, 1 : voice.frames], voice.codes[0, 1:]), "the first codebook has no delay"
    assert torch.equal(agent[1:, 2 : voice.frames + 1], voice.codes[1:, 1:])
    assert _tokens(stepper, 20, voice=voice) != _tokens(stepper, 20)


def test_no_prompt_state_is_ever_known_by_an_own_voice(stepper: SpeechStepper, voice_pcm: Pcm) -> None:
    voice = _learned(stepper, voice_pcm)
    assert stepper.open(_choices("own-0123456789abcdef"), voice).known_as is None
    assert stepper.open(_choices()).known_as is not None
    with pytest.raises(InvalidInput, match="There is no voice own-0123456789abcdef"):
        stepper.open(_choices("own-0123456789abcdef"))


def _collected(session: Session, spoken: list[Pcm]) -> int:
    """How many frames have come by now."""
    while (frame := session.take_spoken()) is not None:
        spoken.append(frame.pcm)
    return len(spoken)


def test_a_talk_is_joined_with_a_learned_voice_while_another_voice_is_learned(
    stepper: SpeechStepper, voice_pcm: Pcm
) -> None:
    expected = _steps(stepper, 12, voice=_learned(stepper, voice_pcm))
    with Engine(stepper) as engine:
        voice = engine.learn_voice(voice_pcm)
        session = engine.join(_choices("own-0123456789abcdef"), voice=voice)
        until(lambda: session.state is SessionState.TALKING)
        learning = engine.errand(stepper.voice_pieces(voice_pcm))
        spoken: list[Pcm] = []
        for number in range(12):
            engine.hear(session, _heard(number))
            until(lambda: _collected(session, spoken) > number)  # noqa: B023
        assert torch.equal(learning.result(5).codes, voice.codes)
    assert all((pcm == step.pcm).all() for pcm, step in zip(spoken, expected, strict=True))


def test_a_codec_drawn_at_random_listens_too(mini_checkpoint: Checkpoint, voice_pcm: Pcm) -> None:
    codec = random_codec(mini_checkpoint.config, CPU, 1)
    voice = encode_voice(voice_pcm, codec.another(1), mini_checkpoint.config)
    assert voice.frames == -(-len(voice_pcm) // FRAME_SAMPLES)


@pytest.mark.parametrize(("context", "trained", "seconds"), [(3000, None, 40.0), (3000, 512, 5.12), (300, None, 4.0)])
def test_a_model_listens_to_as_much_as_its_window_and_its_training_bear(
    mini_checkpoint: Checkpoint, context: int, trained: int | None, seconds: float
) -> None:
    config = mini_checkpoint.config
    config = replace(config, language=replace(config.language, context=context), trained_positions=trained)
    frames = Listener(load_codec(mini_checkpoint.codec, config, CPU, 1), config).most_frames
    assert frames * FRAME_SECONDS == pytest.approx(seconds)


@pytest.mark.parametrize("samples", [0, SAMPLE_RATE_HZ // 4, 61 * SAMPLE_RATE_HZ])
def test_what_makes_no_voice_is_refused_before_the_tick_thread_hears_of_it(
    stepper: SpeechStepper, samples: int
) -> None:
    noise = np.random.default_rng(0).standard_normal(samples).astype(np.float32) * np.float32(0.1)
    with pytest.raises(InvalidInput, match="The voice clip is"):
        stepper.voice_pieces(noise)
