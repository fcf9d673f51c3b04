"""Clips as visitors send them: speech in every dress, and files that are traps."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from typing import Any

import av
import numpy as np
import soundfile
import soxr
from support.speech import speak

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm

OPUS_RATE_HZ = 48_000
SENTENCES = (
    "Good morning, my name is Anna and I have been living by the river for eleven years now.",
    "Every evening I walk along the water, and I listen to the boats that come home.",
)


@functools.cache
def speech() -> Pcm:
    """Some eleven seconds of one speaker, with a little noise as microphones have it."""
    said = np.concatenate([speak(sentence) for sentence in SENTENCES])
    noise = np.random.default_rng(1).standard_normal(len(said)).astype(np.float32)
    return said + 1e-4 * noise


def at_rate(pcm: Pcm, rate_hz: int, channels: int = 1) -> Any:
    """The same sound, [n, channels], at another rate."""
    resampled = pcm if rate_hz == SAMPLE_RATE_HZ else soxr.resample(pcm, SAMPLE_RATE_HZ, rate_hz)
    return np.repeat(resampled[:, None], channels, axis=1)


def sound_file(
    pcm: Pcm, rate_hz: int = SAMPLE_RATE_HZ, channels: int = 1, kind: str = "WAV", subtype: str = "PCM_16"
) -> bytes:
    """What libsndfile writes."""
    file = io.BytesIO()
    soundfile.write(file, at_rate(pcm, rate_hz, channels), rate_hz, format=kind, subtype=subtype)
    return file.getvalue()


def container(
    pcm: Pcm, kind: str, codec: str, rate_hz: int = OPUS_RATE_HZ, streams: int = 1, video: bool = False
) -> bytes:
    """What ffmpeg's libraries write; further streams are silent, a video stream is black."""
    file = io.BytesIO()
    with av.open(file, "w", format=kind) as out:
        if video:
            picture = out.add_stream("mpeg4", rate=5)
            picture.width, picture.height = 32, 32
        sounds = [out.add_stream(codec, rate=rate_hz, layout="mono") for _ in range(streams)]
        if video:
            for at in range(5):
                frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), dtype=np.uint8))
                frame.pts = at
                out.mux(picture.encode(frame))
            out.mux(picture.encode(None))
        for number, stream in enumerate(sounds):
            _fill(out, stream, at_rate(pcm * (number == 0), rate_hz)[:, 0], rate_hz)
    return file.getvalue()


def _fill(out: Any, stream: Any, pcm: Any, rate_hz: int) -> None:
    frame = av.AudioFrame.from_ndarray(np.asarray(pcm, dtype=np.float32)[None], format="fltp", layout="mono")
    frame.sample_rate, frame.pts = rate_hz, 0
    for packet in (*stream.encode(frame), *stream.encode(None)):
        out.mux(packet)


class _Pipe(io.BytesIO):
    """What is written cannot be gone back to, so no length stands in front."""

    def seekable(self) -> bool:
        return False


def opus_bomb(seconds: int, kind: str = "ogg", told: bool = True) -> bytes:
    """Silence in Opus: three bytes for 20 ms. told: the file says how long it is."""
    file = io.BytesIO() if told else _Pipe()
    with av.open(file, "w", format=kind) as out:
        stream = out.add_stream("libopus", rate=OPUS_RATE_HZ, layout="mono")
        for packet in _silent_packets(stream, seconds):
            out.mux(packet)
    return file.getvalue()


def _silent_packets(stream: Any, seconds: int) -> Iterator[Any]:
    silent = np.zeros((1, OPUS_RATE_HZ), dtype=np.float32)
    for second in range(seconds):
        frame = av.AudioFrame.from_ndarray(silent, format="fltp", layout="mono")
        frame.sample_rate, frame.pts = OPUS_RATE_HZ, second * OPUS_RATE_HZ
        yield from stream.encode(frame)
    yield from stream.encode(None)


def flac_bomb(seconds: int, rate_hz: int, channels: int) -> bytes:
    """Silence without loss: some bytes for four thousand samples of each channel."""
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", rate_hz, channels, format="FLAC") as out:
        for _ in range(seconds):
            out.write(np.zeros((rate_hz, channels), dtype=np.int16))
    return file.getvalue()


def patched(data: bytes, box: bytes, offset: int, value: int) -> bytes:
    """An MP4 file with one number of a box changed; offset counts from behind the box's name."""
    at = data.index(box) + len(box) + offset
    return data[:at] + value.to_bytes(4, "big") + data[at + 4 :]
