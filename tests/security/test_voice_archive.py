"""Voices in `voices.tgz`: read one by one in memory; links and paths that lead out of the archive do not exist."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import torch
from support.voice_files import archive, good_fields, member, saved

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.voice_file import VoiceShelf


@pytest.fixture
def packed(mini_checkpoint: Checkpoint, tmp_path: Path, mini_directory: Path) -> VoiceShelf:
    """A shelf with an archive alone: two voices, and what should not be there."""
    (tmp_path / "packed").mkdir()
    fields = good_fields(mini_directory)
    good, other = saved(fields), saved(fields | {"embeddings": fields["embeddings"] * 2})
    members = [
        (member("voices"), b""),
        (member("./voices/NATF0.pt"), good),
        (member("NATM0.pt"), other),
        (member("/abs/ABSOLUTE.pt"), good),
        (member("../UP.pt"), good),
        (member("voices/../../UPUP.pt"), good),
        (member("voices/SOFT.pt", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (member("voices/HARD.pt", tarfile.LNKTYPE, "voices/NATF0.pt"), b""),
        (member("voices/DEVICE.pt", tarfile.CHRTYPE), b""),
        (member("voices/FOLDER.pt", tarfile.DIRTYPE), b""),
        (member("voices/._NATF0.pt"), b"x"),
        (member("voices/readme.txt"), b"x"),
    ]
    archive(tmp_path / "packed" / "voices.tgz", members)
    return VoiceShelf(tmp_path / "packed", tmp_path / "cache", mini_checkpoint.config)


def test_an_archive_s_own_voices_are_listed_and_nothing_else(packed: VoiceShelf) -> None:
    assert packed.names == ["NATF0", "NATM0"]


def test_voices_are_read_from_the_archive_without_unpacking_it(packed: VoiceShelf, tmp_path: Path) -> None:
    one, other = packed.load("NATF0"), packed.load("NATM0")
    assert torch.equal(one.embeddings * 2, other.embeddings)
    assert [path.name for path in (tmp_path / "packed").iterdir()] == ["voices.tgz"]
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".safetensors"}


@pytest.mark.parametrize("name", ["ABSOLUTE", "UP", "UPUP", "SOFT", "HARD", "DEVICE", "FOLDER"])
def test_members_that_lead_elsewhere_are_unknown(packed: VoiceShelf, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"no voice {name}; this checkpoint has NATF0, NATM0"):
        packed.load(name)


@pytest.mark.parametrize("keep", [0, 30, 200])
def test_a_broken_archive_is_told(packed: VoiceShelf, tmp_path: Path, mini_checkpoint: Checkpoint, keep: int) -> None:
    path = tmp_path / "packed" / "voices.tgz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InvalidInput, match=r"voices.tgz cannot be read"):
        VoiceShelf(tmp_path / "packed", tmp_path / "cache", mini_checkpoint.config)
    with pytest.raises(InvalidInput, match="NATF0 cannot be read"):
        packed.load("NATF0")


def test_a_voice_that_vanished_is_told(mini_checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "X.pt").write_bytes(b"x")
    shelf = VoiceShelf(tmp_path, tmp_path / "cache", mini_checkpoint.config)
    (tmp_path / "voices" / "X.pt").unlink()
    with pytest.raises(InvalidInput, match="The voice X cannot be read"):
        shelf.load("X")


def test_files_whose_names_are_no_names_are_not_listed(mini_checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "voices").mkdir()
    for name in ("my voice", "._NATF0", "NATF0"):
        (tmp_path / "voices" / f"{name}.pt").write_bytes(b"x")
    assert VoiceShelf(tmp_path, tmp_path / "cache", mini_checkpoint.config).names == ["NATF0"]
