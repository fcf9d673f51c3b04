"""The fetched files are read once against their checksums; a damaged one is named with the command that removes it."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from huggingface_hub import constants
from support.hub import FIRST_COMMIT, Place
from support.hub_place import LARGE_BYTES, place

from personaplex_app.model import hub_check
from personaplex_app.model.checkpoint import CONFIG_FILE, TOKENIZER_FILE, VOICES_ARCHIVE, WEIGHTS_FILE
from personaplex_app.model.hub import FILES
from personaplex_app.model.hub_check import RECORD_FILE

__all__ = ["place"]

LARGE = [name for name in FILES if name != CONFIG_FILE]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose checksums were computed, by what is said of it."""
    names: list[str] = []
    real = hub_check._sha256

    def noted(path: Path, progress: hub_check.ByteProgress) -> str:
        names.append(progress.what)
        return real(path, progress)

    monkeypatch.setattr(hub_check, "_sha256", noted)
    return names


def _mend(sentence: str) -> None:
    """Does what the sentence says."""
    command = sentence.partition("fetched anew: ")[2]
    assert shlex.split(command)[0] == "rm" and len(shlex.split(command)) == 2
    subprocess.run(shlex.split(command), check=True)


def test_large_files_are_read_once(place: Place, read: list[str]) -> None:
    place.fetch()
    assert read == [f"Checking {name}" for name in LARGE]
    read.clear()
    place.fetch()
    place.fetch(None)
    assert read == []


def test_what_cannot_be_remembered_is_read_again(place: Place, read: list[str]) -> None:
    place.cache.write_text("a file where the folder should be")
    place.fetch()
    place.fetch()
    assert len(read) == 2 * len(LARGE)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"x": 1}', b"\xff", b"{"], ids=repr)
def test_a_record_that_is_none_costs_reading_again(place: Place, read: list[str], content: bytes) -> None:
    place.fetch()
    (place.cache / RECORD_FILE).write_bytes(content)
    read.clear()
    place.fetch()
    assert len(read) == len(LARGE)


@pytest.mark.parametrize("name", LARGE)
def test_a_file_that_comes_damaged_is_named_and_mended_by_the_command(place: Place, name: str) -> None:
    true = place.hub.files[name]
    place.hub.served[name] = true[:-1] + bytes([true[-1] ^ 1])
    told = place.refused()
    assert told == (
        f"{name} is damaged: its SHA-256 is not the Hub's. Delete it and start again, then only this file is fetched "
        f"anew: rm {place.blob(name)}"
    )
    assert place.pin is None and place.refused() == told, "the next start does not take it either"
    _mend(told)
    place.hub.served.clear()
    place.hub.asked.clear()
    assert (place.fetch() / name).read_bytes() == true
    assert place.hub.fetched == [(name, 0)] and place.pin == FIRST_COMMIT


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize("name", [WEIGHTS_FILE, VOICES_ARCHIVE])
def test_a_file_that_is_damaged_later_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str, offline: bool
) -> None:
    place.fetch()
    with place.blob(name).open("r+b") as file:
        file.seek(1000)
        file.write(b"\x00\x01\x02")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    assert place.refused(None).startswith(f"{name} is damaged: its SHA-256 is not the Hub's.")


def test_a_file_that_is_cut_short_is_named_with_its_lengths(place: Place) -> None:
    place.fetch()
    with place.blob(WEIGHTS_FILE).open("r+b") as file:
        file.truncate(1_234_567)
    told = place.refused()
    assert told.startswith(
        f"model.safetensors has 1.23 MB (1234567 bytes) instead of {LARGE_BYTES}. Delete it and start"
    )
    _mend(told)
    place.hub.asked.clear()
    place.fetch()
    assert place.hub.fetched == [(WEIGHTS_FILE, 0)]


def test_a_file_cut_short_before_anybody_read_it_is_named(place: Place) -> None:
    place.fetch()
    (place.cache / RECORD_FILE).unlink()
    with place.blob(TOKENIZER_FILE).open("r+b") as file:
        file.truncate(100)
    assert place.refused().startswith(f"{TOKENIZER_FILE} is damaged")


def test_a_wrong_part_that_is_gone_on_with_is_found(place: Place) -> None:
    place.repository.joinpath("blobs").mkdir(parents=True)
    place.partial(WEIGHTS_FILE).write_bytes(b"x" * 1_000_000)
    told = place.refused()
    assert told.startswith("model.safetensors is damaged")
    _mend(told)
    place.fetch()


def test_where_links_cannot_be_made_files_are_checked_too(
    place: Place, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    """Some network disks know no links: the content then lies under its name, and the record knows its checksum."""
    monkeypatch.setattr("huggingface_hub.file_download.are_symlinks_supported", lambda folder: False)
    folder = place.fetch()
    assert not (folder / WEIGHTS_FILE).is_symlink() and len(read) == len(LARGE)
    read.clear()
    assert place.fetch() == folder and read == []
    with (folder / WEIGHTS_FILE).open("r+b") as file:
        file.write(b"\x00\x01\x02")
    told = place.refused()
    assert told.startswith("model.safetensors is damaged") and told.endswith(f"rm {folder / WEIGHTS_FILE}")


def test_reading_is_told_while_it_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex_app.model.byte_progress.QUIET_SECONDS", 0.0)
    monkeypatch.setattr(hub_check, "BLOCK_BYTES", 1_000_000)
    place.fetch()
    lines = [line for line in place.lines if line.startswith("Checking model.safetensors: ")]
    assert [line.split(", ")[1] for line in lines] == ["33 %", "66 %", "100 %"]
