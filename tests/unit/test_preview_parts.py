"""A preview's sound and where it lies: the spoken part, a WAV file, and files that are none."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from support.hostile import hostile_names, no_files

from personaplex_app.audio import FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm
from personaplex_app.controls import SamplingSettings
from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.preview_shelf import MOST_BYTES, PreviewShelf
from personaplex_app.preview_sounds import FRAMES, preview_choices, spoken_part, wav_bytes


def _frames(*levels: float) -> list[Pcm]:
    return [np.full(FRAME_SAMPLES, level, dtype=np.float32) for level in levels]


def _levels(pcm: Pcm) -> list[float]:
    """The level in the middle of every frame."""
    return [round(float(frame[FRAME_SAMPLES // 2]), 3) for frame in pcm.reshape(-1, FRAME_SAMPLES)]


def test_the_quiet_before_and_behind_is_left_out_and_pauses_stay() -> None:
    pcm = spoken_part(_frames(0, 0, 0, 0.001, 0.06, 0.09, 0, 0, 0, 0.1, 0.002, 0, 0, 0))
    assert _levels(pcm) == [0.001, 0.06, 0.09, 0, 0, 0, 0.1, 0.002, 0]


def test_it_begins_where_speech_does_and_is_never_longer_than_four_seconds() -> None:
    pcm = spoken_part(_frames(*[0.05] * 200))
    assert len(pcm) == FRAMES * FRAME_SAMPLES == 4 * SAMPLE_RATE_HZ
    assert pcm[0] == 0 and pcm[-1] == 0, "the ends are faded"
    assert spoken_part(_frames(0.2)).shape == (FRAME_SAMPLES,)


def test_noise_at_full_scale_is_turned_down() -> None:
    assert max(_levels(spoken_part(_frames(*[0.9] * 9)))) == pytest.approx(0.1, abs=0.01)


def test_a_preview_is_a_plain_wav_file() -> None:
    pcm, rate_hz = soundfile.read(io.BytesIO(wav_bytes(np.array([0, 0.5, -2], dtype=np.float32))), dtype="int16")
    assert rate_hz == SAMPLE_RATE_HZ and pcm.tolist() == [0, 16384, -32768]


@pytest.mark.parametrize(("voice", "name"), [("NATF2", "Kate"), ("VARM1", "Martin"), ("TINY0", "Alex")])
def test_all_voices_are_made_to_say_the_same(voice: str, name: str) -> None:
    choices = preview_choices(voice, SamplingSettings(), 1)
    assert choices.prompt == f"You work for Blue River which is a bike shop and your name is {name}."
    assert choices.voice == voice and choices.seed == 1


WAV = wav_bytes(np.full(4800, 0.25, dtype=np.float32))


def test_a_preview_outlives_the_process_and_is_kept_apart_by_voice(tmp_path: Path) -> None:
    shelf = PreviewShelf(tmp_path / "new" / "folder")
    assert shelf.find("NATF0") is None and "NATF0" not in shelf
    shelf.put("NATF0", WAV)
    assert shelf.find("NATF0") == WAV and "NATF0" in shelf
    later = PreviewShelf(tmp_path / "new" / "folder")
    assert later.find("NATF0") == WAV and later.find("NATM0") is None
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["NATF0.wav"], "no partial file stays"


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"RIFF",
        WAV[:60],
        WAV[:20] + b"\xff" * 40,
        b"\x80\x04." * 99,
        bytes(MOST_BYTES + 1),
        wav_bytes(np.zeros(0, dtype=np.float32)),
        wav_bytes(np.zeros(13 * SAMPLE_RATE_HZ, dtype=np.float32)),
    ],
    ids=["empty", "begun", "cut", "garbled", "pickle", "huge", "no sound", "long"],
)
def test_a_file_that_is_no_preview_counts_as_none_and_is_written_anew(tmp_path: Path, broken: bytes) -> None:
    file = tmp_path / "NATF0.wav"
    file.write_bytes(broken)
    shelf = PreviewShelf(tmp_path)
    assert shelf.find("NATF0") is None
    shelf.put("NATF0", WAV)
    assert file.read_bytes() == WAV


def test_where_nothing_can_be_written_it_is_kept_in_memory_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")
    for directory in (tmp_path / "taken", None):
        shelf = PreviewShelf(directory)
        assert shelf.find("NATF0") is None
        shelf.put("NATF0", WAV)
        assert shelf.find("NATF0") == WAV
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        f"the preview of NATF0 cannot be kept in {tmp_path / 'taken'}"
    ]


def test_a_folder_where_the_file_should_be_is_no_preview(tmp_path: Path) -> None:
    (tmp_path / "NATF0.wav").mkdir()
    shelf = PreviewShelf(tmp_path)
    assert shelf.find("NATF0") is None
    shelf.put("NATF0", WAV)
    assert shelf.find("NATF0") == WAV and not list(tmp_path.glob("*.partial"))


def test_five_hundred_hostile_names_touch_no_file(tmp_path: Path) -> None:
    shelf = PreviewShelf(tmp_path)
    with no_files() as attempts:
        for name in hostile_names():
            with pytest.raises(InvalidInput, match="is no voice name"):
                shelf.find(name)
            with pytest.raises(InvalidInput, match="is no voice name"):
                shelf.put(name, WAV)
    assert not attempts and not list(tmp_path.iterdir())


def test_another_checkpoint_has_another_identity(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path, CheckpointConfig(), 8)
    (tmp_path / "voices").mkdir()
    seen = [checkpoint.identity]
    for name in ("model.safetensors", "config.json", "voices/NATF0.pt", "voices/NATM0.pt", "voices.tgz"):
        (tmp_path / name).write_bytes(b"some")
        seen.append(checkpoint.identity)
    (tmp_path / "model.safetensors").write_bytes(b"more of it")
    seen.append(checkpoint.identity)
    os.utime(tmp_path / "voices" / "NATM0.pt", ns=(1, 1))
    seen.append(checkpoint.identity)
    assert len(set(seen)) == len(seen) and checkpoint.identity == seen[-1]
    (tmp_path / "README.md").write_text("says nothing of how it sounds")
    assert checkpoint.identity == seen[-1]
