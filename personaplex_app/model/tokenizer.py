"""Text and tokens: SentencePiece in, bytes out, one token at a time.

In: prompt text, token ids. Out: token ids, UTF-8 bytes.
Must not know: when a token was said, what a word is.
"""

from __future__ import annotations

from pathlib import Path

import sentencepiece

from personaplex_app.errors import InvalidInput
from personaplex_app.model.config import TEXT_END_OF_PADDING, TEXT_PADDING
from personaplex_app.model.prompts import wrap_prompt

MAX_PROMPT_CHARACTERS = 20_000
MAX_PROMPT_BYTES = 40_000  # of UTF-8: letters that are no piece are a token a byte


class Tokenizer:
    """The checkpoint's SentencePiece model.

    Raises InvalidInput where the file is none, or its size is not the language model's text vocabulary.
    """

    def __init__(self, path: Path, vocabulary: int) -> None:
        try:
            self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise InvalidInput(f"{path} is no SentencePiece model: {error}") from None
        if self._pieces.vocab_size() > vocabulary:
            raise InvalidInput(f"{path} has {self._pieces.vocab_size()} pieces; the language model knows {vocabulary}.")
        self._bytes = [self._token_bytes(token) for token in range(self._pieces.vocab_size())]

    def encode_prompt(self, text: str) -> list[int]:
        """Tokens of a text prompt with its `<system>` marks; no tokens for an empty one.

        Raises InvalidInput, quickly, for a text so long that it cannot fit any context.
        """
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            raise InvalidInput("The prompt holds a character that is no letter of any script (half a pair).") from None
        looked_at = encoded[:MAX_PROMPT_BYTES].decode(errors="ignore")[:MAX_PROMPT_CHARACTERS]
        if len(looked_at) < len(text):
            counted = len(self._pieces.encode(looked_at))
            raise InvalidInput(
                f"The prompt is too long: the first {len(looked_at):,} of its {len(text):,} characters "
                f"alone are {counted:,} tokens.",
                code="prompt_too_long",
            )
        wrapped = wrap_prompt(text)
        return list(self._pieces.encode(wrapped)) if wrapped else []

    def token_bytes(self, token: int) -> bytes:
        """UTF-8 of one token, a leading space for a new word; nothing for padding and control tokens.

        A byte-fallback token is one byte, so only a run of tokens is valid UTF-8.
        """
        return self._bytes[token] if 0 <= token < len(self._bytes) else b""

    def _token_bytes(self, token: int) -> bytes:
        if (
            token in (TEXT_PADDING, TEXT_END_OF_PADDING)
            or self._pieces.is_control(token)
            or self._pieces.is_unknown(token)
        ):
            return b""
        piece = self._pieces.id_to_piece(token)
        if self._pieces.is_byte(token):
            return bytes([int(piece[3:5], 16)])
        return piece.replace("\u2581", " ").encode()
