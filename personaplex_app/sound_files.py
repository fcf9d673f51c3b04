"""Sound files in and out: anything libsndfile or ffmpeg's libraries read, mono 24 kHz inside.

In: paths the operator names. Out: float32 arrays, and 16-bit WAV files.
Must not know: torch, sessions; visitors' files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm, int16_from_float, mono
from personaplex_app.errors import InvalidInput


def read_sound(path: Path) -> Pcm:
    """Reads a file of any rate and any number of channels; returns float32 [samples], mono 24 kHz.

    Raises InvalidInput where there is no file, no sound in it, or nothing that can be decoded.
    """
    if not path.exists():
        raise InvalidInput(f"There is no file {path}.")
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file.")
    if path.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty.")
    samples, rate_hz = _decode(path)
    if len(samples) == 0:
        raise InvalidInput(f"{path} holds no sound: it is empty.")
    pcm = mono(samples)
    if not np.isfinite(pcm).all():
        raise InvalidInput(f"{path} holds samples that are not numbers.")
    return pcm if rate_hz == SAMPLE_RATE_HZ else _resample(pcm, rate_hz)


def _resample(pcm: Pcm, rate_hz: int) -> Pcm:
    """soxr at high quality; the length is what the rates say, to the sample."""
    wanted = max(1, round(len(pcm) * SAMPLE_RATE_HZ / rate_hz))
    out = soxr.resample(pcm, rate_hz, SAMPLE_RATE_HZ, quality="HQ")[:wanted]
    return np.pad(out, (0, wanted - len(out))).astype(np.float32)


def _decode(path: Path) -> tuple[npt.NDArray[np.float32], int]:
    try:
        samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
        return samples, int(rate_hz)
    except soundfile.LibsndfileError:
        return _decode_with_ffmpeg(path)


def _decode_with_ffmpeg(path: Path) -> tuple[npt.NDArray[np.float32], int]:
    import av

    try:
        with av.open(str(path)) as container:
            if not container.streams.audio:
                raise InvalidInput(f"{path} holds no sound.")
            stream = container.streams.audio[0]
            to_float = av.AudioResampler(format="flt")  # interleaved: av 18.1 crashes on the planes of eight channels
            pieces = [
                piece.to_ndarray().reshape(-1, piece.layout.nb_channels)
                for frame in container.decode(stream)
                for piece in to_float.resample(frame)
            ]
            rate_hz = stream.rate
    except av.FFmpegError:
        raise InvalidInput(f"{path} is no sound file that libsndfile or ffmpeg can read.") from None
    if not pieces:
        return np.zeros((0, 1), dtype=np.float32), rate_hz
    return np.concatenate(pieces), rate_hz


def write_wav(path: Path, pcm: Pcm) -> None:
    """Writes float32 [samples] as mono 24 kHz 16-bit WAV; raises InvalidInput where that place cannot be written."""
    try:
        soundfile.write(path, int16_from_float(pcm), SAMPLE_RATE_HZ, subtype="PCM_16", format="WAV")
    except (soundfile.LibsndfileError, OSError) as error:
        raise InvalidInput(f"{path} cannot be written: {error}.") from None
