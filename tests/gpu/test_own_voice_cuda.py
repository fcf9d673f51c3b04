"""A voice is learned on a GPU between the steps of a talk: the talk says what it says alone, and no piece is long."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import torch

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import FRAME_SAMPLES, Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.codec import load_codec
from personaplex_app.model.prompts import VoicePrompt
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.model.voice_file import encode_voice
from personaplex_app.settings import EngineChoice
from personaplex_app.sound_files import read_sound

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]
CHOICES = Choices("Be kind.", "none", SamplingSettings().greedy(), 9)
FRAMES = 60
MOST_PIECE_SECONDS = 0.005
MOST_FIRST_PIECE_SECONDS = 0.05  # nothing is compiled or recorded then


@pytest.fixture(scope="module", params=[False, True], ids=["fast", "plain"])
def stepper(request: pytest.FixtureRequest, cache_outside_home: Path) -> SpeechStepper:
    choice = EngineChoice("mini", cache_outside_home, device="cuda", precision="float32", slots=2, plain=request.param)
    return build_stepper(choice)


@pytest.fixture(scope="module")
def voice_pcm() -> Pcm:
    return read_sound(Path(__file__).parents[1] / "fixtures" / "custom_voice.wav")


def _tokens(stepper: SpeechStepper, between: Iterable[None] = (), voice: VoicePrompt | None = None) -> list[list[int]]:
    noise, work = np.random.default_rng(3), iter(between)
    stepper.prime(1, stepper.open(CHOICES, voice))
    said = []
    for _ in range(FRAMES):
        heard = (0.1 * noise.standard_normal(FRAME_SAMPLES)).astype(np.float32)
        said.append(stepper.step({1: heard})[1].tokens.tolist())
        next(work, None)
    stepper.release(1)
    return said


def test_a_voice_is_learned_between_the_steps_of_a_talk(
    stepper: SpeechStepper, voice_pcm: Pcm, mini_checkpoint: Checkpoint
) -> None:
    alone = _tokens(stepper)
    taken: list[float] = []
    voices: list[VoicePrompt] = []

    def timed() -> Iterable[None]:
        pieces = stepper.voice_pieces(voice_pcm)
        while True:
            began = time.perf_counter()
            try:
                next(pieces)
            except StopIteration as end:
                voices.append(end.value)
                return
            taken.append(time.perf_counter() - began)
            yield

    assert _tokens(stepper, timed()) == alone
    assert taken[0] < MOST_FIRST_PIECE_SECONDS and median(taken) < MOST_PIECE_SECONDS, taken
    on_cpu = load_codec(mini_checkpoint.codec, mini_checkpoint.config, torch.device("cpu"), 1)
    expected = encode_voice(voice_pcm, on_cpu, stepper.config).codes
    assert (voices[0].codes == expected).float().mean() > 0.97, "but for ties in the last codebooks"
    assert _tokens(stepper, voice=voices[0]) != alone
