"""The prompt: its marks, its tokens, its place on the grid of positions, and how long it may be."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.config import DELAYS, SILENCE_CODES, SINE_CODES, CheckpointConfig
from personaplex_app.model.prompts import VoicePrompt, check_codes, check_plan_length, plan_prompt, wrap_prompt
from personaplex_app.model.tokenizer import Tokenizer

CONFIG = CheckpointConfig()
VOICE = VoicePrompt(codes=torch.arange(8 * 5).reshape(8, 5))


@pytest.fixture(scope="module")
def tokenizer(mini_checkpoint: Checkpoint) -> Tokenizer:
    return Tokenizer(mini_checkpoint.tokenizer, mini_checkpoint.config.language.text_card)


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [
        ("You are wise.", "<system> You are wise. <system>"),
        ("  You are wise.\n", "<system> You are wise. <system>"),
        ("<system> You are wise. <system>", "<system> You are wise. <system>"),
        (" <system>x<system> ", "<system>x<system>"),
        ("<system> open end", "<system> <system> open end <system>"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_marks_are_put_where_there_are_none(text: str, wrapped: str) -> None:
    assert wrap_prompt(text) == wrapped == wrap_prompt(wrapped)


def test_a_plan_is_voice_silence_text_silence() -> None:
    plan = plan_prompt(VOICE, [11, 12, 13], CONFIG)
    assert plan.frames == 5 + 6 + 3 + 6 and plan.text_tokens == 3
    assert plan.grid[0].tolist() == [32_000] + [3] * 10 + [11, 12, 13] + [3] * 6
    assert plan.embeddings is None


def test_streams_stand_at_their_delays() -> None:
    plan = plan_prompt(VOICE, [11], CONFIG)
    for stream in range(1, 17):
        delay, codes = DELAYS[stream], SINE_CODES if stream > 8 else SILENCE_CODES
        frames = [codes[(stream - 1) % 8]] * plan.frames
        if stream <= 8:
            frames[:5] = VOICE.codes[stream - 1].tolist()
        expected = [2048] * (delay + 1) + frames[1 : plan.frames - delay]
        assert plan.grid[stream].tolist() == expected
        assert plan.after[stream] == (frames[-1] if delay else -1)
    assert plan.after[0] == -1


def test_no_text_and_no_voice_leave_twelve_frames_of_silence() -> None:
    plan = plan_prompt(None, [], CONFIG)
    assert plan.frames == 12 and plan.grid[0, 1:].tolist() == [3] * 11
    assert plan.grid[1, 1:].tolist() == [SILENCE_CODES[0]] * 11


@given(frames=st.integers(2, 12), text=st.lists(st.integers(4, 500), max_size=5))
@settings(deadline=None)
def test_a_saved_voice_goes_on_where_its_embeddings_end(frames: int, text: list[int]) -> None:
    codes = torch.arange(8 * frames).reshape(8, frames)
    coded = plan_prompt(VoicePrompt(codes=codes), text, CONFIG)
    ring = torch.zeros(17, 4, dtype=torch.int64)
    for position in range(max(0, frames - 3), frames + 1):
        ring[:, position % 4] = coded.grid[:, position]
    saved = VoicePrompt(embeddings=torch.zeros(frames - 1, CONFIG.language.dim), ring=ring)
    plan = plan_prompt(saved, text, CONFIG)
    assert saved.frames == frames and plan.frames == coded.frames
    assert torch.equal(plan.grid[:, frames - 1 :], coded.grid[:, frames - 1 :])
    assert torch.equal(plan.after, coded.after)


def test_constants_of_the_checkpoint_win() -> None:
    config = CheckpointConfig(silence_codes=tuple(range(8)), sine_codes=tuple(range(10, 18)))
    plan = plan_prompt(None, [], config)
    assert plan.grid[1:, -1].tolist() == [*range(8), *range(10, 18)]


def test_a_prompt_may_fill_a_third_of_the_context() -> None:
    check_plan_length(plan_prompt(None, [5] * 88, CONFIG), 300)
    with pytest.raises(InvalidInput) as refused:
        check_plan_length(plan_prompt(None, [5] * 95, CONFIG), 300)
    sentence = refused.value.sentence
    assert "95 tokens" in sentence and "107 frames" in sentence and "at most 100 fit" in sentence
    assert "Shorten the text by 7 tokens" in sentence and refused.value.code == "prompt_too_long"


def test_a_hundred_thousand_characters_are_refused_quickly_with_a_count(tokenizer: Tokenizer) -> None:
    for text in ("word " * 20_000, "x" * 100_000, "東" * 100_000, "\x00" * 100_000, " " * 100_000 + "x"):
        began = time.perf_counter()
        with pytest.raises(InvalidInput, match=r"100,00[01] characters alone are [0-9,]+ tokens") as refused:
            tokenizer.encode_prompt(text)
        assert time.perf_counter() - began < 0.5
        assert refused.value.code == "prompt_too_long"


@pytest.mark.parametrize("text", ["😀 hello", "東京へようこそ", "Ünïcödé", "a\x00b", "<b>bold</b>", "‮right to left"])
def test_unusual_letters_become_tokens_and_the_same_letters_again(tokenizer: Tokenizer, text: str) -> None:
    tokens = tokenizer.encode_prompt(text)
    spoken = b"".join(tokenizer.token_bytes(token) for token in tokens).decode()
    assert all(0 < token < 512 for token in tokens)
    assert spoken.strip().removeprefix("<system>").removesuffix("<system>").strip() == text


def test_an_empty_prompt_has_no_tokens(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_prompt("") == tokenizer.encode_prompt(" \n") == []


@pytest.mark.parametrize("token", [0, 1, 2, 3, -1, 512, 10**9])
def test_padding_and_control_tokens_say_nothing(tokenizer: Tokenizer, token: int) -> None:
    assert tokenizer.token_bytes(token) == b""


def test_a_tokenizer_file_that_is_none_is_refused(mini_checkpoint: Checkpoint, tmp_path) -> None:
    path = tmp_path / "tokenizer.model"
    for content in (b"", b"not a model", mini_checkpoint.tokenizer.read_bytes()[:1000]):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="is no SentencePiece model"):
            Tokenizer(path, 512)
    with pytest.raises(InvalidInput, match="has 512 pieces; the language model knows 100"):
        Tokenizer(mini_checkpoint.tokenizer, 100)


@pytest.mark.parametrize("codes", [torch.zeros(7, 5), torch.zeros(8, 0), torch.zeros(8)], ids=["rows", "none", "flat"])
def test_codes_of_another_shape_are_refused(codes: torch.Tensor) -> None:
    with pytest.raises(InvalidInput, match=r"codes of shape \[8, T\]"):
        check_codes(codes, 2048, "The voice")


@pytest.mark.parametrize("code", [-1, 2048])
def test_codes_outside_the_codebook_are_refused(code: int) -> None:
    with pytest.raises(InvalidInput, match=r"codes outside 0\.\.2047"):
        check_codes(torch.full((8, 3), code), 2048, "The voice")
