"""The full-size stand-in for released weights that cannot be downloaded everywhere: `--checkpoint random`.

In: a seed and a cache directory. Out: a tokenizer of exactly 32,000 pieces. (Weights: `loading.random_weights`,
codec: `codec.random_codec`.) It proves speed and memory, and says nothing of quality.
Must not know: sessions, the web.
"""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Iterator
from pathlib import Path

import sentencepiece

from personaplex_app.model.config import TEXT_PADDING

PIECES = 32_000
_ONSETS = ("b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr", "ch", "sh", "th", "")
_VOWELS = ("a", "e", "i", "o", "u", "ea", "ai", "ou", "oo", "ie")
_ENDINGS = ("n", "r", "s", "t", "l", "nd", "st", "ng", "m", "ck", "d", "", "")
_ENGLISH = (
    "You work for the company which is a service and your name is. Information: Open from Monday to Friday. "
    "You are a wise and friendly teacher. Answer questions or provide advice in a clear and engaging way. "
    "You enjoy having a good conversation. You live in the city and you like music, sports and cooking. "
    "<system> Hello, how can I help you today? Yes, of course. No, I am sorry, I do not know that. Thank you. "
)


def _corpus(seed: int) -> Iterator[str]:
    """Invented words in lines of twelve, enough of them for 32,000 pieces, with some English among them."""
    rng = random.Random(seed)
    words: set[str] = set()
    while len(words) < 45_000:
        syllables = rng.choice((1, 1, 2, 2, 2, 3))
        words.add("".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_ENDINGS) for _ in range(syllables)))
    ordered = sorted(words)
    rng.shuffle(ordered)
    for start in range(0, len(ordered), 12):
        yield " ".join(ordered[start : start + 12])
        if start % 480 == 0:
            yield _ENGLISH


def random_tokenizer(cache: Path, seed: int = 0) -> Path:
    """The file of `tokenizer_bytes`; raises OSError where the cache cannot be written."""
    path = _kept(cache, seed)
    if not path.is_file():
        _keep(path, _train(seed))
    return path


def tokenizer_bytes(cache: Path, seed: int = 0) -> bytes:
    """A SentencePiece model of exactly 32,000 pieces (0 unknown, 3 padding, byte fallback); made once, then kept.

    A cache that cannot be written costs the making again, nothing else.
    """
    path = _kept(cache, seed)
    if path.is_file():
        return path.read_bytes()
    model = _train(seed)
    with contextlib.suppress(OSError):
        _keep(path, model)
    return model


def _kept(cache: Path, seed: int) -> Path:
    return cache / f"random-tokenizer-{seed}.model"


def _keep(path: Path, model: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(model)
    partial.replace(path)


def _train(seed: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_corpus(seed),
        model_writer=model,
        vocab_size=PIECES,
        model_type="bpe",
        byte_fallback=True,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=TEXT_PADDING,
        character_coverage=1.0,
        minloglevel=2,
    )
    return model.getvalue()
