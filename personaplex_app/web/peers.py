"""aiortc set up for talk: a jitter buffer that waits for nothing, an Opus encoder that keeps the waveform.

Both replace names that aiortc looks up when a peer is made, so they are called before the first one; aiortc is pinned.
Must not know: FastRTC, sessions.
"""

from __future__ import annotations

from typing import Any

import aiortc.codecs
import aiortc.rtcrtpreceiver

JITTER_PACKETS = 4


def use_small_jitter_buffer() -> None:
    """Audio receivers made from now on play a packet when it comes: 20 ms of delay instead of 80."""
    original = aiortc.rtcrtpreceiver.JitterBuffer
    if getattr(original, "small_for_audio", False):
        return

    def make(capacity: int, prefetch: int = 0, is_video: bool = False) -> Any:
        return original(capacity, prefetch, is_video) if is_video else original(JITTER_PACKETS, 0, is_video)

    make.small_for_audio = True  # type: ignore[attr-defined]
    aiortc.rtcrtpreceiver.JitterBuffer = make


def use_clear_encoder() -> None:
    """Opus encoders made from now on keep the waveform, and 4 ms less delay.

    aiortc asks for `voip`, whose filters turn the phase of low voices: correlation with the input 0.957, not 0.998.
    """
    original: Any = aiortc.codecs.OpusEncoder
    if getattr(original, "clear", False):
        return

    class ClearEncoder(original):  # type: ignore[misc]
        clear = True

        def __init__(self) -> None:
            super().__init__()
            self.codec.options = {"application": "lowdelay"}

    aiortc.codecs.OpusEncoder = ClearEncoder
