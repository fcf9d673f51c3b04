"""aiortc's own parts as we set them: a buffer that waits for little, holes covered, an encoder that keeps the waveform.

All hang on private names, so a version that renames them must fail here and not in somebody's ear.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import aiortc.codecs
import aiortc.codecs.opus
import aiortc.jitterbuffer
import aiortc.rtcrtpreceiver
import aiortc.rtcsctptransport
import numpy as np
import pytest
from aiortc.mediastreams import MediaStreamError
from aiortc.rtp import RtpPacket
from av import AudioFrame
from support.signals import aligned_correlation

from personaplex_app.audio import Pcm, int16_from_float
from personaplex_app.web.peers import (
    AudioBuffer,
    AudioRun,
    use_clear_encoder,
    use_quick_channel,
    use_small_jitter_buffer,
)

OPUS = SimpleNamespace(mimeType="audio/opus")
PACKET_SAMPLES, RATE_HZ = 960, 48_000


@pytest.fixture(autouse=True)
def aiortc_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test starts from what aiortc brings, and leaves it behind."""
    monkeypatch.setattr(aiortc.rtcrtpreceiver, "JitterBuffer", aiortc.jitterbuffer.JitterBuffer)
    monkeypatch.setattr(aiortc.codecs, "OpusDecoder", aiortc.codecs.opus.OpusDecoder)
    monkeypatch.setattr(aiortc.codecs, "OpusEncoder", aiortc.codecs.opus.OpusEncoder)
    monkeypatch.setattr(aiortc.rtcsctptransport, "SCTP_RTO_INITIAL", 3.0)
    monkeypatch.setattr(aiortc.rtcsctptransport, "SCTP_RTO_MIN", 1)


def test_audio_receivers_get_the_small_jitter_buffer() -> None:
    use_small_jitter_buffer()
    once = aiortc.rtcrtpreceiver.JitterBuffer, aiortc.codecs.OpusDecoder
    use_small_jitter_buffer()
    assert (aiortc.rtcrtpreceiver.JitterBuffer, aiortc.codecs.OpusDecoder) == once
    buffers = {}
    for kind in ("audio", "video"):
        receiver = aiortc.rtcrtpreceiver.RTCRtpReceiver(kind, SimpleNamespace(state="new"))
        buffers[kind] = receiver._RTCRtpReceiver__jitter_buffer
    assert isinstance(buffers["audio"], AudioBuffer)
    assert buffers["video"].capacity == 512 and buffers["video"]._is_video


def _voice(seconds: float) -> Pcm:
    """A gliding tone with harmonics that swells, so that no two packets are alike."""
    at = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    phase = 2 * np.pi * np.cumsum(140 + 30 * np.sin(2 * np.pi * 0.9 * at)) / RATE_HZ
    sound = sum(np.sin(phase * harmonic) / harmonic for harmonic in range(1, 8))
    return (0.15 * sound * (0.6 + 0.4 * np.sin(2 * np.pi * 2.7 * at))).astype(np.float32)


def _packets(said: Pcm) -> Iterator[Any]:
    """What a sender makes of it: an RTP packet each 20 ms, numbers that wrap on the way."""
    encoder = aiortc.codecs.get_encoder(OPUS)
    number = 65_500
    for at in range(0, len(said) - PACKET_SAMPLES + 1, PACKET_SAMPLES):
        frame = AudioFrame.from_ndarray(int16_from_float(said[at : at + PACKET_SAMPLES]).reshape(1, -1), "s16", "mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE_HZ, at, Fraction(1, RATE_HZ)
        for payload in encoder.encode(frame)[0]:
            packet = RtpPacket(sequence_number=number % 65_536, timestamp=at, payload=payload)
            packet._data = payload
            number += 1
            yield packet


def _decoded(packets: list[Any]) -> Pcm:
    buffer, decoder = aiortc.rtcrtpreceiver.JitterBuffer(16, 4), aiortc.codecs.get_decoder(OPUS)
    heard: list[Pcm] = []
    for packet in packets:
        _, run = buffer.add(packet)
        for frame in decoder.decode(run) if run else []:
            assert frame.pts == sum(map(len, heard)) and frame.sample_rate == RATE_HZ
            heard.append(frame.to_ndarray().reshape(-1, 2)[:, 0].astype(np.float32) / 32768)
    return np.concatenate(heard)


@pytest.mark.parametrize(("every", "least"), [(20, 0.98), (10, 0.95)])
def test_lost_packets_neither_shorten_the_sound_nor_tear_it(every: int, least: float) -> None:
    use_small_jitter_buffer()
    use_clear_encoder()
    said = _voice(6.0)
    packets = list(_packets(said))
    kept = [packet for number, packet in enumerate(packets) if number % every != every // 2]
    whole, heard = _decoded(packets), _decoded(kept)
    assert len(heard) == len(whole)
    assert aligned_correlation(said, whole, RATE_HZ)[0] > 0.995
    correlation, delay_ms = aligned_correlation(said, heard, RATE_HZ)
    assert correlation > least and delay_ms < 10
    assert np.abs(np.diff(heard)).max() < 2.0 * np.abs(np.diff(whole)).max()


def test_packets_out_of_order_sound_as_if_they_were_not() -> None:
    use_small_jitter_buffer()
    packets = list(_packets(_voice(2.0)))
    swapped = [packet for pair in zip(packets[1::2], packets[0::2], strict=False) for packet in pair]
    swapped[:2] = swapped[1::-1]  # the first two in order: nothing is known of the order yet
    assert np.array_equal(_decoded(swapped), _decoded(packets[: len(swapped)]))


def test_an_empty_packet_is_a_lost_one() -> None:
    use_small_jitter_buffer()
    packets = list(_packets(_voice(1.0)))
    packets[20]._data = b""
    assert len(_decoded(packets)) == len(packets) * PACKET_SAMPLES


def test_other_codecs_get_what_came_joined() -> None:
    run = AudioRun([b"a", None, b"b"], 7)
    assert (run.data, run.timestamp) == (b"ab", 7)


def test_opus_encoders_keep_the_waveform() -> None:
    use_clear_encoder()
    once = aiortc.codecs.OpusEncoder
    use_clear_encoder()
    assert aiortc.codecs.OpusEncoder is once
    encoder = aiortc.codecs.get_encoder(OPUS)
    assert encoder.codec.options == {"application": "lowdelay"}


def test_a_track_that_has_ended_is_no_failure_of_the_encoder() -> None:
    use_clear_encoder()
    with pytest.raises(MediaStreamError):  # what aiortc takes as an end; anything else it logs with a traceback
        aiortc.codecs.get_encoder(OPUS).pack(None)


def test_data_channels_soon_repeat_what_was_lost() -> None:
    async def first_and_least() -> tuple[float, float]:
        peer = aiortc.RTCPeerConnection()
        peer.createDataChannel("text")
        first = peer.sctp._rto
        peer.sctp._update_rto(0.001)
        least = peer.sctp._rto
        await peer.close()
        return first, least

    assert asyncio.run(first_and_least()) == (3.0, 1)
    use_quick_channel()
    assert asyncio.run(first_and_least()) == (0.5, 0.4)
