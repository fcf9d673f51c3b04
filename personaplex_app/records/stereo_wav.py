"""The head of a WAV file whose length is known and whose sound follows: 24 kHz, 16 bit, stereo, with a comment. Pure.

In: bytes of sound to come, remarks for the INFO list. Out: bytes. Must not know: where the sound comes from.
"""

from __future__ import annotations

import struct

from personaplex_app.audio import SAMPLE_RATE_HZ
from personaplex_app.records.recording import CHANNELS

SAMPLE_BYTES = 2
PCM = 1


def wav_head(sound_bytes: int, comment: str, software: str) -> bytes:
    """RIFF, format, INFO (ICMT, ISFT) and the head of the data."""
    remarks = b"INFO" + _part(b"ICMT", _text(comment)) + _part(b"ISFT", _text(software))
    block = CHANNELS * SAMPLE_BYTES
    layout = struct.pack("<HHIIHH", PCM, CHANNELS, SAMPLE_RATE_HZ, SAMPLE_RATE_HZ * block, block, 8 * SAMPLE_BYTES)
    body = b"WAVE" + _part(b"fmt ", layout) + _part(b"LIST", remarks) + struct.pack("<4sI", b"data", sound_bytes)
    return struct.pack("<4sI", b"RIFF", len(body) + sound_bytes) + body


def _part(name: bytes, content: bytes) -> bytes:
    """A part of RIFF; its length is told without the byte that makes it even."""
    return struct.pack("<4sI", name, len(content)) + content + bytes(len(content) % 2)


def _text(words: str) -> bytes:
    return words.encode("ascii", "replace") + b"\0"
