"""A recording is aligned to the frame, left what was heard and right what was spoken, bounded, and leaves nothing."""

from __future__ import annotations

import io
import mmap
import weakref
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.audio import FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm, int16_from_float
from personaplex_app.records.recording import BLOCK_BYTES, FRAME_BYTES, FULL, LONG_ENOUGH, Recording, Room
from personaplex_app.records.stereo_wav import wav_head

STATM = Path("/proc/self/statm")
COMMENT = "Synthetic speech: a test's."


def tone(index: int, hz: float) -> Pcm:
    """A steady tone's frame."""
    at = np.arange(index * FRAME_SAMPLES, (index + 1) * FRAME_SAMPLES) / SAMPLE_RATE_HZ
    return (0.4 * np.sin(2 * np.pi * hz * at)).astype(np.float32)


def see(recording: Recording, *indices: int) -> None:
    for index in indices:
        recording.saw(index, tone(index, 440), tone(index, 1000))


def file_of(recording: Recording, frames: int | None = None) -> bytes:
    frames = len(recording) if frames is None else frames
    return wav_head(frames * FRAME_BYTES, COMMENT, "tests") + b"".join(recording.pieces(frames))


def roomy() -> Room:
    return Room(1 << 30)


def test_the_visitor_is_left_and_the_persona_right_each_frame_at_its_time() -> None:
    recording = Recording(roomy(), 100)
    see(recording, 7, 8, 11)
    with soundfile.SoundFile(io.BytesIO(file_of(recording))) as file:
        assert (file.samplerate, file.channels, file.subtype) == (SAMPLE_RATE_HZ, 2, "PCM_16")
        assert (file.comment, file.software) == (COMMENT, "tests")
        sound = file.read(dtype="int16", always_2d=True)
    assert len(sound) == 5 * FRAME_SAMPLES and recording.first_frame == 7 and recording.seconds == 0.4
    for at in (0, 1, 4):
        frame = sound[at * FRAME_SAMPLES : (at + 1) * FRAME_SAMPLES]
        assert np.array_equal(frame[:, 0], int16_from_float(tone(7 + at, 440)))
        assert np.array_equal(frame[:, 1], int16_from_float(tone(7 + at, 1000)))
    assert not sound[2 * FRAME_SAMPLES : 4 * FRAME_SAMPLES].any(), "what was dropped is silence"


@given(st.lists(st.integers(0, 12), min_size=1, max_size=30), st.integers(0, 1000))
def test_gaps_keep_every_frame_at_its_time_and_take_no_memory(gaps: list[int], first: int) -> None:
    room = roomy()
    recording = Recording(room, 1000)
    indices = np.cumsum([first, *[gap + 1 for gap in gaps]]).tolist()
    for index in indices:
        recording.saw(index, np.full(FRAME_SAMPLES, (index + 1) / 4000, np.float32), tone(index, 300))
    assert room.bytes == recording.kept_bytes == len(indices) * FRAME_BYTES
    sound = np.frombuffer(b"".join(recording.pieces(len(recording))), dtype="<i2").reshape(-1, FRAME_SAMPLES, 2)
    assert len(sound) == indices[-1] - first + 1
    for at, frame in enumerate(sound):
        index = first + at
        expected = int16_from_float(np.full(1, (index + 1) / 4000, np.float32))[0] if index in indices else 0
        assert (frame[:, 0] == expected).all() and frame[:, 1].any() == (index in indices)


def test_it_ends_in_words_where_it_is_long_enough_or_the_room_is_full() -> None:
    room = Room(3 * FRAME_BYTES)
    long, other = Recording(room, 2), Recording(room, 100)
    see(long, 5, 6, 7, 8)
    assert (len(long), long.on, long.why) == (2, False, LONG_ENOUGH)
    see(other, 0, 1)
    assert (len(other), other.on, other.why) == (1, False, FULL)
    assert room.bytes == room.most_bytes
    see(other, 2)
    assert len(other) == 1, "and takes nothing up again"


def test_a_gap_beyond_the_end_is_the_end() -> None:
    recording = Recording(roomy(), 10)
    see(recording, 0, 1_000_000)
    assert (len(recording), recording.why) == (1, LONG_ENOUGH)


def test_a_frame_that_comes_twice_is_kept_once() -> None:
    recording = Recording(roomy(), 10)
    see(recording, 3, 4, 4, 3, 2)
    assert len(recording) == 2


def test_nothing_is_left_of_what_is_erased_and_its_room_is_free() -> None:
    room = roomy()
    recording = Recording(room, 100)
    see(recording, *range(40))
    pieces = recording.pieces(40)
    assert next(pieces) != bytes(16 * FRAME_BYTES)
    recording.erase()
    assert (room.bytes, len(recording), recording.on) == (0, 0, False)
    assert [piece.count(0) == len(piece) for piece in pieces] == [True, True], "who still loads it gets silence"
    see(recording, 41)
    recording.erase()
    assert room.bytes == 0 and len(recording) == 0


@pytest.mark.skipif(not STATM.exists(), reason="reads /proc")
def test_memory_goes_back_to_the_system_when_a_recording_between_others_is_erased() -> None:
    def resident() -> int:
        return int(STATM.read_text().split()[1]) * mmap.PAGESIZE

    room, loud = roomy(), tone(0, 440)
    recordings = [Recording(room, 4000) for _ in range(3)]
    for index in range(3000):
        for recording in recordings:
            recording.saw(index, loud, loud)
    before, held = resident(), recordings[1].kept_bytes
    recordings[1].erase()
    assert before - resident() > 0.9 * held > 20e6
    assert BLOCK_BYTES % mmap.PAGESIZE == 0, "whole pages"


def test_the_frames_themselves_are_not_held() -> None:
    recording = Recording(roomy(), 100)
    heard, spoken = tone(0, 440), tone(0, 500)
    watched = [weakref.ref(heard), weakref.ref(spoken)]
    recording.saw(0, heard, spoken)
    del heard, spoken
    assert [one() for one in watched] == [None, None] and len(recording) == 1


@pytest.mark.parametrize("words", ["", "odd", "even", "ümlaut €"])
def test_any_remark_makes_a_file(words: str) -> None:
    recording = Recording(roomy(), 10)
    see(recording, 0)
    content = wav_head(FRAME_BYTES, words, words) + bytes(FRAME_BYTES)
    with soundfile.SoundFile(io.BytesIO(content)) as file:
        assert file.frames == FRAME_SAMPLES and file.comment == words.encode("ascii", "replace").decode()
    assert int.from_bytes(content[4:8], "little") == len(content) - 8
