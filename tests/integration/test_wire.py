"""aiortc's own parts as we set them: a jitter buffer that waits for nothing, an encoder that keeps the waveform.

Both hang on private names, so a version that renames them must fail here and not in somebody's ear.
"""

from __future__ import annotations

from types import SimpleNamespace

import aiortc.codecs
import aiortc.codecs.opus
import aiortc.jitterbuffer
import aiortc.rtcrtpreceiver
import pytest

from personaplex_app.web.peers import JITTER_PACKETS, use_clear_encoder, use_small_jitter_buffer


def test_audio_receivers_get_the_small_jitter_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiortc.rtcrtpreceiver, "JitterBuffer", aiortc.jitterbuffer.JitterBuffer)
    use_small_jitter_buffer()
    once = aiortc.rtcrtpreceiver.JitterBuffer
    use_small_jitter_buffer()
    assert aiortc.rtcrtpreceiver.JitterBuffer is once
    buffers = {}
    for kind in ("audio", "video"):
        receiver = aiortc.rtcrtpreceiver.RTCRtpReceiver(kind, SimpleNamespace(state="new"))
        buffers[kind] = receiver._RTCRtpReceiver__jitter_buffer
    assert (buffers["audio"].capacity, buffers["audio"]._prefetch) == (JITTER_PACKETS, 0) == (4, 0)
    assert buffers["video"].capacity == 512 and buffers["video"]._is_video


def test_opus_encoders_keep_the_waveform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiortc.codecs, "OpusEncoder", aiortc.codecs.opus.OpusEncoder)
    use_clear_encoder()
    once = aiortc.codecs.OpusEncoder
    use_clear_encoder()
    assert aiortc.codecs.OpusEncoder is once
    encoder = aiortc.codecs.get_encoder(SimpleNamespace(mimeType="audio/opus"))
    assert encoder.codec.options == {"application": "lowdelay"}
