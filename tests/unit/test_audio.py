"""Sound in numbers: conversions that never wrap, frames that lose no sample, files of any kind, loudness."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.audio import (
    FRAME_MS,
    FRAME_RATE_HZ,
    FRAME_SAMPLES,
    FRAME_SECONDS,
    SAMPLE_RATE_HZ,
    FrameAssembler,
    float_from_int16,
    int16_from_float,
    mono,
    silence,
    split_frames,
)
from personaplex_app.errors import InvalidInput
from personaplex_app.loudness import normalize_loudness
from personaplex_app.sound_files import read_sound, write_wav


def _tone(seconds: float, rate_hz: int = SAMPLE_RATE_HZ, hz: float = 440.0) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate_hz)) / rate_hz)).astype(np.float32)


def test_the_frame() -> None:
    assert FRAME_SAMPLES == SAMPLE_RATE_HZ * FRAME_SECONDS == 1920
    assert FRAME_MS == 80 and FRAME_RATE_HZ * FRAME_SECONDS == 1


def test_int16_survives_the_way_there_and_back() -> None:
    every = np.arange(-32768, 32768, dtype=np.int16)
    assert np.array_equal(int16_from_float(float_from_int16(every)), every)


def test_loud_samples_are_clipped_never_wrapped() -> None:
    pcm = np.array([-9.0, -1.0, 0.99999, 1.0, 9.0], dtype=np.float32)
    assert int16_from_float(pcm).tolist() == [-32768, -32768, 32767, 32767, 32767]


def test_mono_is_the_mean_of_the_channels() -> None:
    assert mono(np.array([[0.0, 1.0], [0.5, 0.5]])).tolist() == [0.5, 0.5]
    assert mono(np.zeros(3)).dtype == np.float32


@given(st.integers(0, 3 * FRAME_SAMPLES))
def test_frames_hold_every_sample_and_end_in_silence(samples: int) -> None:
    pcm = np.arange(1, samples + 1, dtype=np.float32)
    frames = split_frames(pcm)
    assert frames.shape == (-(-samples // FRAME_SAMPLES), FRAME_SAMPLES)
    assert np.array_equal(frames.ravel()[:samples], pcm) and not frames.ravel()[samples:].any()


@given(st.lists(st.integers(0, 5000), max_size=12))
def test_the_assembler_loses_nothing_whatever_the_pieces(lengths: list[int]) -> None:
    whole = np.arange(sum(lengths), dtype=np.float32)
    pieces = np.split(whole, np.cumsum(lengths)[:-1]) if lengths else []
    assembler, frames = FrameAssembler(), []
    for piece in pieces:
        frames += assembler.push(piece)
        assert 0 <= assembler.waiting_samples < FRAME_SAMPLES
    assert len(frames) * FRAME_SAMPLES + assembler.waiting_samples == len(whole)
    assert all(len(frame) == FRAME_SAMPLES for frame in frames)
    joined = np.concatenate(frames) if frames else silence(0)
    assert np.array_equal(joined, whole[: len(joined)])


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 24_000, 44_100, 48_000, 192_000])
def test_files_of_any_rate_keep_length_and_tone(tmp_path: Path, rate_hz: int) -> None:
    soundfile.write(tmp_path / "in.wav", np.stack([_tone(0.5, rate_hz)] * 2, axis=1), rate_hz)
    pcm = read_sound(tmp_path / "in.wav")
    assert pcm.shape == (12_000,) and pcm.dtype == np.float32
    np.testing.assert_allclose(pcm[1000:-1000], _tone(0.5)[1000:-1000], atol=0.01)


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    write_wav(tmp_path / "out.wav", _tone(0.1))
    info = soundfile.info(tmp_path / "out.wav")
    assert (info.samplerate, info.channels, info.subtype) == (SAMPLE_RATE_HZ, 1, "PCM_16")
    np.testing.assert_allclose(read_sound(tmp_path / "out.wav"), _tone(0.1), atol=2**-15)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_wav(tmp_path / "nowhere" / "out.wav", _tone(0.1))


def test_samples_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "nan.wav", np.full(100, np.nan), SAMPLE_RATE_HZ, subtype="FLOAT")
    with pytest.raises(InvalidInput, match="not numbers"):
        read_sound(tmp_path / "nan.wav")


def test_loudness_reaches_its_target_from_far_away() -> None:
    import pyloudnorm

    meter = pyloudnorm.Meter(SAMPLE_RATE_HZ)
    for gain in (0.01, 1.0, 3.0):
        assert meter.integrated_loudness(normalize_loudness(gain * _tone(1.0)).astype(float)) == pytest.approx(
            -24, abs=0.1
        )


@pytest.mark.parametrize(
    ("pcm", "sentence"),
    [
        (silence(0), "0.00 s long; at least 0.4 s"),
        (_tone(0.39), "0.39 s long; at least 0.4 s"),
        (silence(24_000), "The voice clip is silent"),
        (np.full(24_000, np.nan, dtype=np.float32), "not numbers"),
    ],
    ids=["empty", "short", "silent", "nan"],
)
def test_clips_without_a_loudness_are_refused(pcm: np.ndarray, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        normalize_loudness(pcm)
