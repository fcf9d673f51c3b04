"""The reference implementation's tokens, logits, codes and sound, reproduced on the random miniature."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.golden import CASES, Case, Reference, case_talk, golden_prompt, pt_voice, talk
from support.ties import hear_as_reference

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import split_frames
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.loudness import normalize_loudness
from personaplex_app.model import config as architecture
from personaplex_app.model import transformer
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.codec import Codec, load_codec
from personaplex_app.model.loading import Weights
from personaplex_app.model.prompts import VoicePrompt, plan_prompt
from personaplex_app.model.voice_file import encode_voice
from personaplex_app.offline import render
from personaplex_app.settings import EngineChoice
from personaplex_app.sound_files import read_sound


@pytest.fixture(scope="module")
def codec(mini_checkpoint: Checkpoint) -> Codec:
    return load_codec(mini_checkpoint.codec, mini_checkpoint.config, torch.device("cpu"), 1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_greedy_tokens_are_the_reference_s(
    case: Case, mini_weights: Weights, mini_checkpoint: Checkpoint, reference: Reference
) -> None:
    ours, theirs = case_talk(case, mini_weights, mini_checkpoint, reference)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_masked_attention_gives_the_same_tokens(
    case: Case, mini_weights: Weights, mini_checkpoint: Checkpoint, reference: Reference
) -> None:
    ours, theirs = case_talk(case, mini_weights, mini_checkpoint, reference, masked=True)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("case", [case for case in CASES if case.context], ids=str)
def test_wrapping_cases_depend_on_the_ring_s_size(
    case: Case, mini_weights: Weights, mini_checkpoint: Checkpoint, reference: Reference
) -> None:
    other = Case(case.name, case.voice, case.context + 1)
    ours, theirs = case_talk(other, mini_weights, mini_checkpoint, reference)
    assert (ours != theirs).any()


def _teacher_forced(weights: Weights, reference: Reference) -> tuple[float, float]:
    """Largest difference of hidden vectors and of text logits."""
    columns = torch.from_numpy(reference["forward_input"]).T
    config = weights.config
    cache = torch.zeros(config.layers, 2, config.heads, 64, config.head_dim)
    with torch.inference_mode():
        hidden, logits = weights.temporal.prefill(weights.temporal.embed(columns), cache)
    return (
        float(np.abs(hidden.numpy() - reference["forward_hidden"]).max()),
        float(np.abs(logits.numpy() - reference["forward_text_logits"]).max()),
    )


def test_teacher_forced_hidden_and_logits(mini_weights: Weights, reference: Reference) -> None:
    assert max(_teacher_forced(mini_weights, reference)) < 1e-4


def test_rms_norm_eps(mini_weights: Weights, reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    assert transformer.RMS_NORM_EPS == architecture.RMS_NORM_EPS == 1e-8
    ours = max(_teacher_forced(mini_weights, reference))
    monkeypatch.setattr(transformer, "RMS_NORM_EPS", 1e-5)
    other = max(_teacher_forced(mini_weights, reference))
    assert ours < 1e-6
    assert other > 4 * ours  # eps leaves a trace of 2e-6, float32 one of 2e-7


def test_codec_encodes_as_the_reference(codec: Codec, reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    codec.reset(0)
    heard = hear_as_reference(monkeypatch, codec, reference["mimi_codes"])
    frames = torch.from_numpy(split_frames(reference["mimi_wav"]))
    codes = torch.cat([codec.encode(frame[None]) for frame in frames]).T.numpy()
    np.testing.assert_array_equal(codes, reference["mimi_codes"])
    assert heard() == 75


def test_a_code_that_is_not_the_nearest_is_found(
    codec: Codec, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = torch.from_numpy(split_frames(reference["mimi_wav"]))
    for level in range(6):  # the last two hold nothing but entries that are as near
        codec.reset(0)
        spoiled = reference["mimi_codes"].copy()
        spoiled[level, 1] = (spoiled[level, 1] + 1) % 2048
        with monkeypatch.context() as patch:
            heard = hear_as_reference(patch, codec, spoiled)
            codec.encode(frames[:1])
            with pytest.raises(AssertionError, match="frame 1"):
                codec.encode(frames[1:2])
            assert heard() == 1


def test_codec_decodes_as_the_reference(codec: Codec, reference: Reference) -> None:
    codec.reset(0)
    columns = torch.from_numpy(reference["mimi_codes"]).T
    pcm = torch.cat([codec.decode(column[None])[0] for column in columns]).numpy()
    np.testing.assert_allclose(pcm, reference["mimi_pcm"], rtol=0, atol=1e-4)


def test_voice_from_sound_is_normalized_as_the_reference(reference: Reference, fixtures) -> None:
    ours = normalize_loudness(read_sound(fixtures / "custom_voice.wav"))
    np.testing.assert_allclose(ours, reference["voicewav_normalized"], rtol=0, atol=1e-4)


def test_voice_from_sound_gives_the_reference_s_codes_and_tokens(
    codec: Codec,
    mini_weights: Weights,
    mini_checkpoint: Checkpoint,
    reference: Reference,
    fixtures,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = hear_as_reference(monkeypatch, codec, reference["voicewav_codes"])
    voice = encode_voice(read_sound(fixtures / "custom_voice.wav"), codec, mini_checkpoint.config)
    np.testing.assert_array_equal(voice.codes.numpy(), reference["voicewav_codes"])
    assert heard() == 50
    tokens = [int(token) for token in reference["pt_text_text_prompt_tokens"]]
    ours = talk(mini_weights, plan_prompt(voice, tokens, mini_checkpoint.config), reference["voicewav_user_codes"])
    np.testing.assert_array_equal(ours[:, :-1], reference["voicewav_step_outputs"][:9, 1:])


def test_offline_call_gives_the_reference_s_tokens(
    mini_checkpoint: Checkpoint, reference: Reference, fixtures, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = build_stepper(EngineChoice("mini", tmp_path, device="cpu"))
    prompt = golden_prompt(mini_checkpoint, reference)
    opening = stepper.open(Choices(prompt, "TINY0", SamplingSettings().greedy(), 0))
    heard = hear_as_reference(monkeypatch, stepper.codec, reference["mimi_codes"])
    rendered = render(stepper, opening, read_sound(fixtures / "offline_input.wav"))
    assert heard() == 75
    np.testing.assert_array_equal(rendered.tokens[:, :-1], reference["offline_step_outputs"][:9, 1:])


def test_official_voice_equals_its_codes(
    mini_weights: Weights, mini_checkpoint: Checkpoint, reference: Reference
) -> None:
    voice = pt_voice(mini_checkpoint)
    codes = VoicePrompt(codes=torch.from_numpy(reference["voice_codes"]))
    coded = plan_prompt(codes, [5, 6], mini_checkpoint.config)
    replayed = plan_prompt(voice, [5, 6], mini_checkpoint.config)
    given = len(voice.embeddings)
    assert torch.equal(replayed.grid[:, given:], coded.grid[:, given:])
    assert torch.equal(voice.embeddings, mini_weights.temporal.embed(coded.grid[:, :given].T))
