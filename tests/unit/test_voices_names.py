"""A voice's name is never a path: five hundred hostile ones are refused and not one file is opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import hostile_names, no_files

from personaplex_app.errors import InvalidInput
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.voice_file import VoiceShelf
from personaplex_app.voices import check_voice_name, describe_voice, voice_kind


@pytest.fixture
def shelf(tmp_path: Path) -> VoiceShelf:
    """A shelf with one name on it, in a folder beside which a secret lies."""
    (tmp_path / "checkpoint" / "voices").mkdir(parents=True)
    (tmp_path / "checkpoint" / "voices" / "TINY0.pt").write_bytes(b"x")
    (tmp_path / "secret.pt").write_bytes(b"x")
    return VoiceShelf(tmp_path / "checkpoint", tmp_path / "cache", CheckpointConfig())


@pytest.fixture
def untouched() -> Iterator[list[object]]:
    with no_files() as attempts:
        yield attempts


def test_five_hundred_hostile_names_are_refused_and_no_file_is_opened(
    shelf: VoiceShelf, untouched: list[object]
) -> None:
    refused = 0
    for name in hostile_names():
        with pytest.raises(InvalidInput) as error:
            shelf.load(name)
        refused += error.value.code == "unknown_voice" and len(error.value.sentence) < 400
    assert refused == 500 and not untouched


def test_a_proper_name_that_is_not_there_opens_nothing_either(shelf: VoiceShelf, untouched: list[object]) -> None:
    with pytest.raises(InvalidInput, match="There is no voice NATF0; this checkpoint has TINY0") as error:
        shelf.load("NATF0")
    assert error.value.code == "unknown_voice" and not untouched


@pytest.mark.parametrize("name", [None, 3, b"TINY0", ["TINY0"]])
def test_what_is_no_text_is_no_name(name: object) -> None:
    with pytest.raises(InvalidInput, match="is no voice name"):
        check_voice_name(name)


@given(st.text())
def test_a_name_that_passes_can_only_be_a_file_s_stem(name: str) -> None:
    try:
        checked = check_voice_name(name)
    except InvalidInput:
        return
    assert checked == name and name.isascii() and 1 <= len(name) <= 32
    assert Path("voices", f"{name}.pt").parts == ("voices", f"{name}.pt")


@pytest.mark.parametrize("name", ["NATF0", "VARM4", "TINY0", "none", "my-voice_2", "x" * 32])
def test_proper_names_pass(name: str) -> None:
    assert check_voice_name(name) == name


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("NATF0", "NATF0 · natural, female"),
        ("VARM4", "VARM4 · varied, male"),
        ("TINY0", "TINY0"),
        ("NATF0x", "NATF0x"),
        ("none", "no voice prompt"),
    ],
)
def test_names_are_described_for_people(name: str, description: str) -> None:
    assert describe_voice(name) == description


def test_an_official_name_says_style_and_gender() -> None:
    kinds = [voice_kind(name) for name in ("NATF0", "NATM3", "VARF4", "VARM0", "TINY0", "own-0123abcd")]
    assert kinds[:4] == [("natural", "female"), ("natural", "male"), ("varied", "female"), ("varied", "male")]
    assert kinds[4:] == [("own", "")] * 2
