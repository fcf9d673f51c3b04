"""The stand-in for weights that cannot be downloaded: a tokenizer of the released size, random weights that step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sentencepiece import SentencePieceProcessor
from support.golden import GREEDY

from personaplex_app.model.config import CheckpointConfig, LanguageConfig
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import random_weights
from personaplex_app.model.prompts import plan_prompt
from personaplex_app.model.random_checkpoint import random_tokenizer
from personaplex_app.model.tokenizer import Tokenizer

SMALL = LanguageConfig(dim=64, layers=2, heads=4, hidden=96, context=128, depth_dim=32, depth_layers=2, depth_heads=2)


@pytest.fixture(scope="module")
def tokenizer_file(cache_outside_home: Path) -> Path:
    return random_tokenizer(cache_outside_home)


def test_the_tokenizer_has_the_released_size_and_marks(tokenizer_file: Path) -> None:
    pieces = SentencePieceProcessor(model_file=str(tokenizer_file))
    assert pieces.vocab_size() == 32_000
    assert (pieces.unk_id(), pieces.pad_id()) == (0, 3)
    assert sum(pieces.is_byte(token) for token in range(32_000)) == 256


def test_it_reads_any_text_and_says_it_again(tokenizer_file: Path) -> None:
    tokenizer = Tokenizer(tokenizer_file, 32_000)
    tokens = tokenizer.encode_prompt("Grüße 😀 from the bakery")
    assert b"".join(tokenizer.token_bytes(token) for token in tokens).decode().split() == [
        "<system>",
        "Grüße",
        "😀",
        "from",
        "the",
        "bakery",
        "<system>",
    ]


def test_it_is_made_once(tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentencepiece.SentencePieceTrainer.train", lambda **_: pytest.fail("made again"))
    assert random_tokenizer(tokenizer_file.parent) == tokenizer_file


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_random_weights_step_in_finite_numbers(dtype: torch.dtype) -> None:
    weights = random_weights(SMALL, torch.device("cpu"), dtype)
    model = LanguageModel(weights, 2)
    config = CheckpointConfig(language=SMALL)
    for slot in range(2):
        model.prime(slot, plan_prompt(None, [5, 6], config), GREEDY, 0)
    for _ in range(150):
        step = model.advance(torch.randint(0, 2048, (2, 8)), [True, True])
        assert step.healthy.all()
    assert weights.dtype == dtype and model.state.position_host == [14 + 150] * 2


def test_random_weights_are_the_same_each_time() -> None:
    one, other = (random_weights(SMALL, torch.device("cpu"), torch.bfloat16, seed=3) for _ in range(2))
    pairs = zip(one.temporal.parameters(), other.temporal.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
