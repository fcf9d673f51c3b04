"""Voices in `voices.tgz`: read one by one in memory; links and paths that lead out of the archive do not exist, and an
archive larger than voices can be is refused before it costs memory or time."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.voice_files import archive, good_fields, member, saved

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.voice_archive import (
    MAX_EXTENDED_HEADER_BYTES,
    MAX_MEMBERS,
    MAX_VOICE_FILE_BYTES,
    archived_names,
    read_archived,
)
from personaplex_app.model.voice_file import VoiceShelf, read_voice_bytes


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
        (member("none.pt"), good),
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
    with pytest.raises(InvalidInput, match=r"voices.tgz cannot be read: .* Delete it and fetch it again."):
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
    for name in ("my voice", "._NATF0", "NATF0", "none"):
        (tmp_path / "voices" / f"{name}.pt").write_bytes(b"x")
    assert VoiceShelf(tmp_path, tmp_path / "cache", mini_checkpoint.config).names == ["NATF0"]


def _header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A member's plain header that claims a size; nothing need follow."""
    claimed = member(name, kind)
    claimed.size = size
    return claimed.tobuf(tarfile.GNU_FORMAT)


def _extended(records: dict[str, str]) -> bytes:
    """An extended header of these records, as it stands before a member's own."""
    lines = b"".join(_record(keyword, value) for keyword, value in records.items())
    return _header("x", len(lines), tarfile.XHDTYPE) + lines + bytes(-len(lines) % 512)


def _record(keyword: str, value: str) -> bytes:
    rest = f" {keyword}={value}\n"
    length = len(rest)
    while length != len(str(length)) + len(rest):
        length = len(str(length)) + len(rest)
    return f"{length}{rest}".encode()


END = bytes(1024)
TERABYTE = 2**40
EMPTY = _header("voices/A.pt", 0)
OVERSIZE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a member that claims a terabyte": (
        lambda: _header("voices/A.pt", TERABYTE) + END,
        "a member of 1099511627776 bytes",
    ),
    "a member of no interest that claims it": (lambda: _header("film", TERABYTE) + EMPTY + END, "a member of 109951"),
    "a negative size": (lambda: _header("voices/A.pt", -512) + END, "is refused|cannot be read"),
    "a member a byte too large": (
        lambda: _header("voices/A.pt", MAX_VOICE_FILE_BYTES + 1) + END,
        f"a member of {MAX_VOICE_FILE_BYTES + 1} bytes is in it, and {MAX_VOICE_FILE_BYTES} are the most",
    ),
    "an extended header that changes the size": (
        lambda: _extended({"size": str(TERABYTE)}) + EMPTY + END,
        "a member of 1099511627776 bytes",
    ),
    "an extended header of megabytes": (
        lambda: _header("x", 2**25, tarfile.XHDTYPE) + bytes(2**25) + EMPTY + END,
        f"a member of {2**25} bytes is in it, and {MAX_EXTENDED_HEADER_BYTES} are the most",
    ),
    "a long name of megabytes": (
        lambda: _header("././@LongLink", 2**25, tarfile.GNUTYPE_LONGNAME) + b"a" * 2**25 + EMPTY + END,
        f"a member of {2**25} bytes",
    ),
    "a thousand members and one": (lambda: EMPTY * (MAX_MEMBERS + 1) + END, f"more than {MAX_MEMBERS} members"),
    "headers without an end": (
        lambda: _extended({"comment": "a"}) * 5000 + EMPTY + END,
        "is refused: more extended headers",
    ),
}


@pytest.mark.parametrize("name", OVERSIZE)
def test_an_archive_larger_than_voices_can_be_is_refused(tmp_path: Path, name: str) -> None:
    make, sentence = OVERSIZE[name]
    path = tmp_path / "voices.tgz"
    path.write_bytes(gzip.compress(make(), 1))
    began = time.monotonic()
    for ask in (archived_names, lambda path: read_archived(path, "B")):
        with pytest.raises(InvalidInput, match=sentence):
            ask(path)
    assert time.monotonic() - began < 2


def test_a_bomb_that_claims_little_is_refused_when_it_has_unpacked_too_much(tmp_path: Path) -> None:
    """Members that fit, one after another: 1 GB of zeros in a file of one megabyte."""
    once = gzip.compress(_header("filler", 2**24) + bytes(2**24), 1)
    path = tmp_path / "voices.tgz"
    path.write_bytes(once * 64)
    assert path.stat().st_size < 8 * 2**20
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=r"voices.tgz is refused: it unpacks to more than 512 MiB"):
            archived_names(path)
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_chain_of_extended_headers_is_refused(tmp_path: Path, kind: bytes) -> None:
    one = _header("x", 10, kind) + (b"10 abc=de\n" if kind != tarfile.GNUTYPE_LONGNAME else b"voices/A.p")
    path = tmp_path / "voices.tgz"
    path.write_bytes(gzip.compress((one + bytes(502)) * 5000 + EMPTY + END))
    with pytest.raises(InvalidInput, match="is refused: more extended headers follow one another than a member can"):
        archived_names(path)


def test_an_archive_too_large_as_it_lies_is_not_opened(tmp_path: Path) -> None:
    with (tmp_path / "voices.tgz").open("wb") as file:
        file.truncate(513 * 2**20)
    with pytest.raises(InvalidInput, match="it is larger than 512 MiB"):
        archived_names(tmp_path / "voices.tgz")


def test_a_voice_that_unpacks_to_gigabytes_is_refused(mini_checkpoint: Checkpoint) -> None:
    """A `.pt` file is a zip file; torch writes it unpacked, a bomb would not be."""
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("archive/data.pkl", b"x")
        file.writestr("archive/data/0", bytes(MAX_VOICE_FILE_BYTES))
    with pytest.raises(InvalidInput, match="The voice X unpacks to 64 MiB; at most 64"):
        read_voice_bytes(bomb.getvalue(), mini_checkpoint.config, "X")


def test_a_file_within_another_s_claim_ends_early(tmp_path: Path) -> None:
    (tmp_path / "voices.tgz").write_bytes(gzip.compress(_header("voices/A.pt", 5000) + b"x" * 100))
    with pytest.raises(InvalidInput, match="cannot be read: unexpected end of data"):
        archived_names(tmp_path / "voices.tgz")


def test_broken_archives_of_all_kinds_end_in_a_sentence(packed: VoiceShelf, tmp_path: Path) -> None:
    """Bytes changed before and after packing, by a seeded die: voices or a sentence, nothing else."""
    die, path = random.Random(7), tmp_path / "broken.tgz"
    plain = gzip.decompress((tmp_path / "packed" / "voices.tgz").read_bytes())
    whole = gzip.compress(plain, 1)
    refused = 0
    for turn in range(150):
        data = bytearray(plain if turn % 2 else whole)
        for _ in range(die.choice((1, 3, 20))):
            data[die.randrange(len(data))] = die.randrange(256)
        path.write_bytes(gzip.compress(bytes(data), 1) if turn % 2 else bytes(data))
        try:
            archived_names(path)
            read_archived(path, "NATM0")
        except InvalidInput as error:
            refused += 1
            assert "\n" not in error.sentence and len(error.sentence) < 500
    assert 20 < refused < 150
