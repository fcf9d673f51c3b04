"""Decodes a clip that a stranger sent; a process of its own, which `clip_reader.py` starts and ends.

In: the file's bytes on standard input. Out: one line of JSON, then float32 mono at 24 kHz, on standard output.
What is decoded is counted as it comes; the process can open no file and no connection, and holds little memory.
Must not know: where the clip came from, what becomes of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import wave
from collections.abc import Iterator
from typing import Any

import av
import numpy as np
import soxr
from av.audio.resampler import AudioResampler

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm, mono
from personaplex_app.errors import InvalidInput

MOST_SECONDS = 300
MOST_SAMPLES = 60_000_000  # of all channels together: five minutes in stereo at 96 kHz
RATES_HZ = (8_000, 192_000)
MOST_CHANNELS = 8
MOST_BAD_PACKETS = 100
MORE_BYTES = 128 << 20  # than the libraries take
CPU_SECONDS = 10
NICENESS = 5  # talks go first

# ffmpeg's own lists: what is not named is not even tried. No playlist, no script, no device, no picture stands here.
FORMATS = "wav,mp3,flac,ogg,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm"
PLAIN_CODECS = [f"pcm_{kind}" for kind in ("u8", "s16le", "s24le", "s32le", "f32le", "f64le", "alaw", "mulaw")]
CODECS = ("mp3float", "mp3", "aac", "flac", "opus", "vorbis", *PLAIN_CODECS)
OPEN_OPTIONS = {"format_whitelist": FORMATS, "codec_whitelist": ",".join(CODECS), "protocol_whitelist": "none"}

UNREADABLE = "clip_unreadable"
KINDS = "wav, mp3, flac, m4a, ogg or webm"
NOT_SOUND = f"This is no sound file that can be read; send {KINDS}."
NO_SOUND = "There is no sound in this file."


def refusal(sentence: str, code: str = UNREADABLE) -> InvalidInput:
    """Why a clip is not read."""
    return InvalidInput(sentence, code=code)


def decode(data: bytes) -> tuple[dict[str, Any], list[Pcm]]:
    """All sound of a clip, float32 pieces mono at 24 kHz, and what is told of it: `rate_hz`, `channels`, `damaged`.

    Raises InvalidInput for what is no sound, too long, or beyond what a voice can be.
    """
    facts: dict[str, Any] = {"damaged": False}
    pieces: list[Pcm] = []
    stream: Any = None
    with _opened(data) as (container, audio):
        if container.duration is None or container.duration > MOST_SECONDS * av.time_base:
            _check_length(data)
        for channels, rate_hz in _decoded(container, audio, facts):
            if stream is None:
                stream = soxr.ResampleStream(rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32", quality="HQ")
            pieces.append(stream.resample_chunk(mono(channels)).copy())  # it may be part of a larger one
    if stream is None:
        raise refusal(NOT_SOUND if facts["damaged"] else NO_SOUND)
    pieces.append(stream.resample_chunk(np.zeros(0, dtype=np.float32), last=True))
    if not all(np.isfinite(piece).all() for piece in pieces):
        raise refusal("The file holds samples that are not numbers.")
    return facts, pieces


def _check_length(data: bytes) -> None:
    """Refuses what is too long by its packets, before any of them is decoded."""
    with _opened(data) as (container, audio), contextlib.suppress(av.FFmpegError):
        seconds = 0.0
        for packet in container.demux(audio):
            seconds += float((packet.duration or 0) * (packet.time_base or 0))
            if seconds > MOST_SECONDS:
                raise _too_long()


def _too_long() -> InvalidInput:
    return refusal(
        f"The clip is longer than {MOST_SECONDS // 60} minutes; send 3 to 30 seconds of it.", code="clip_long"
    )


@contextlib.contextmanager
def _opened(data: bytes) -> Iterator[tuple[Any, Any]]:
    """The container and its first sound stream."""
    try:
        with av.open(io.BytesIO(data), options=OPEN_OPTIONS) as container:
            if not container.streams.audio:
                raise refusal(NO_SOUND)
            audio = container.streams.audio[0]
            if audio.codec_context is None or audio.codec_context.codec.name not in CODECS:
                raise refusal(f"The sound in this file is stored in a way that cannot be read; send {KINDS}.")
            audio.codec_context.thread_count = 1
            yield container, audio
    except (av.FFmpegError, ValueError, UnicodeDecodeError):
        raise refusal(NOT_SOUND) from None


def _decoded(container: Any, audio: Any, facts: dict[str, Any]) -> Iterator[tuple[Pcm, int]]:
    """Frames as float32 [n, channels] with their rate, counted; facts tells what they were."""
    to_float = AudioResampler(format="flt")  # interleaved: av 18.1 crashes on the planes of eight channels
    seconds, samples = 0.0, 0
    for frame in _frames(container, audio, facts):
        rate_hz, channels = int(frame.sample_rate), int(frame.layout.nb_channels)
        _check_kind(rate_hz, channels, facts)
        seconds += frame.samples / rate_hz
        samples += frame.samples * channels
        if seconds > MOST_SECONDS:
            raise _too_long()
        if samples > MOST_SAMPLES:
            raise refusal(
                f"The clip holds more than {MOST_SAMPLES // 1_000_000} million samples after {seconds:.0f} s "
                f"({channels} channels at {rate_hz} Hz); send 3 to 30 seconds of it.",
                code="clip_long",
            )
        frame.pts = None
        for piece in to_float.resample(frame):
            sound: Any = piece.to_ndarray()
            yield sound.reshape(-1, channels), rate_hz


def _check_kind(rate_hz: int, channels: int, facts: dict[str, Any]) -> None:
    lowest, highest = RATES_HZ
    if not lowest <= rate_hz <= highest:
        raise refusal(f"The sound has {rate_hz} samples a second; {lowest} to {highest} can be used.")
    if not 1 <= channels <= MOST_CHANNELS:
        raise refusal(f"The sound has {channels} channels; at most {MOST_CHANNELS} can be used.")
    if facts.setdefault("rate_hz", rate_hz) != rate_hz or facts.setdefault("channels", channels) != channels:
        raise refusal("The sound changes its rate or its channels on the way; save it as one plain file.")


def _frames(container: Any, audio: Any, facts: dict[str, Any]) -> Iterator[Any]:
    """What can be decoded; a file that breaks off gives what is there."""
    bad = 0
    packets = container.demux(audio)
    while True:
        try:
            packet = next(packets)
        except StopIteration:
            return
        except av.FFmpegError:
            facts["damaged"] = True
            return
        try:
            yield from packet.decode()
        except av.FFmpegError:
            facts["damaged"] = True
            bad += 1
            if bad > MOST_BAD_PACKETS:
                raise refusal(NOT_SOUND) from None


def _load_all() -> None:
    """Libraries load parts of themselves when they are first used: a clip of our own uses them, while files open."""
    import av.subtitles
    import av.video.stream

    assert av.subtitles and av.video.stream
    file = io.BytesIO()
    with wave.open(file, "wb") as clip:
        clip.setparams((2, 2, 2 * SAMPLE_RATE_HZ, 0, "NONE", ""))
        clip.writeframes(bytes(4 * SAMPLE_RATE_HZ // 10))
    decode(file.getvalue())
    with contextlib.suppress(InvalidInput):
        decode(b"no sound")


def _give_up_powers() -> None:
    """From here on: little memory and time, no file, no connection, no core dump; talks go first."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has none of it, macOS not all
        import resource

        os.nice(NICENESS)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        memory = _addresses() + MORE_BYTES
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _addresses() -> int:
    """Bytes of memory that this process has reserved."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """One clip: its facts and its sound, or the sentence that refuses it."""
    _load_all()
    data = sys.stdin.buffer.read()
    _give_up_powers()
    pieces: list[Pcm] = []
    try:
        facts, pieces = decode(data)
    except InvalidInput as error:
        facts = {"refused": error.sentence, "code": error.code}
    except MemoryError:
        facts = {"refused": NOT_SOUND, "code": UNREADABLE}
    out = sys.stdout.buffer
    out.write(json.dumps(facts).encode() + b"\n")
    for piece in pieces:
        out.write(piece.data)
    out.flush()


if __name__ == "__main__":
    main()
