"""Official voices are `.pt` files: never executed, checked field by field, kept as safetensors in the cache."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.golden import talk
from support.voice_files import good_fields, saved, traps

from personaplex_app.cli import main
from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.loading import Weights
from personaplex_app.model.prompts import VoicePrompt, plan_prompt
from personaplex_app.model.voice_file import MAX_VOICE_FILE_BYTES, VoiceShelf, read_voice_bytes

Fields = dict[str, Any]


@pytest.fixture
def fields(mini_directory: Path) -> Fields:
    return good_fields(mini_directory)


@pytest.fixture
def shelf_of(mini_checkpoint: Checkpoint, tmp_path: Path) -> Callable[[bytes], VoiceShelf]:
    """Makes a shelf whose one voice, X, is the given file."""

    def make(data: bytes) -> VoiceShelf:
        (tmp_path / "checkpoint" / "voices").mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkpoint" / "voices" / "X.pt").write_bytes(data)
        return VoiceShelf(tmp_path / "checkpoint", tmp_path / "cache", mini_checkpoint.config)

    return make


def _equal(one: VoicePrompt, other: VoicePrompt) -> bool:
    return torch.equal(one.embeddings, other.embeddings) and torch.equal(one.ring, other.ring)


def test_the_traps_are_traps(tmp_path: Path) -> None:
    pickle.loads(traps(tmp_path / "mark")["bare pickle"])
    assert (tmp_path / "mark").exists(), "a careless reader runs it"


@pytest.mark.parametrize("kind", traps(Path("x")))
def test_a_trap_is_refused_and_never_runs(
    shelf_of: Callable[[bytes], VoiceShelf], mini_checkpoint: Checkpoint, tmp_path: Path, kind: str
) -> None:
    data = traps(tmp_path / "mark")[kind]
    with pytest.raises(InvalidInput, match="The voice X"):
        read_voice_bytes(data, mini_checkpoint.config, "X")
    with pytest.raises(InvalidInput, match="The voice X"):
        shelf_of(data).load("X")
    assert not (tmp_path / "mark").exists() and not (tmp_path / "cache").exists()


@pytest.mark.parametrize("kind", traps(Path("x")))
def test_a_trap_never_runs_through_the_command(tmp_path: Path, fixtures: Path, kind: str, capsys: Any) -> None:
    trap = tmp_path / "voice.pt"
    trap.write_bytes(traps(tmp_path / "mark")[kind])
    sound = str(fixtures / "custom_voice.wav")
    assert main(["render", sound, str(tmp_path / "out.wav"), "--checkpoint", "mini", "--voice", str(trap)]) == 2
    assert capsys.readouterr().err.startswith("error: The voice voice.pt")
    assert not (tmp_path / "mark").exists() and not (tmp_path / "out.wav").exists()


def _with(**changes: Any) -> Callable[[Fields], Fields]:
    return lambda fields: fields | changes


def _spoiled(name: str, value: float) -> Callable[[Fields], Fields]:
    def spoil(fields: Fields) -> Fields:
        tensor = fields[name].clone()
        tensor.view(-1)[-1] = value
        return fields | {name: tensor}

    return spoil


REFUSED = {
    "no dict": (lambda _: torch.zeros(3), "must hold exactly"),
    "missing key": (lambda fields: {"embeddings": fields["embeddings"]}, r"exactly \['cache', 'embeddings'\]"),
    "surplus key": (_with(extra=torch.zeros(1)), "must hold exactly"),
    "no tensor": (_with(cache=[1, 2]), "must hold plain tensors"),
    "flat embeddings": (lambda f: f | {"embeddings": f["embeddings"][:, 0, 0]}, r"must be \[T - 1, 1, 1, D\]"),
    "no frames": (lambda f: f | {"embeddings": f["embeddings"][:0]}, "has 1 frames; 2 to 750"),
    "a minute": (_with(embeddings=torch.zeros(750, 1, 1, 32)), "has 751 frames"),
    "other width": (_with(embeddings=torch.zeros(3, 1, 1, 64)), "another model: its width is 64, not 32"),
    "double": (lambda f: f | {"embeddings": f["embeddings"].double()}, "finite float32 or bfloat16"),
    "integers": (lambda f: f | {"embeddings": f["embeddings"].long()}, "finite float32 or bfloat16"),
    "nan": (_spoiled("embeddings", float("nan")), "finite"),
    "infinite": (_spoiled("embeddings", float("inf")), "finite"),
    "ring shape": (lambda f: f | {"cache": f["cache"][:, :16]}, r"cache must be \[1, 17, 4\], not \[1, 16, 4\]"),
    "ring dtype": (lambda f: f | {"cache": f["cache"].int()}, "cache must be int64, not torch.int32"),
    "negative token": (_spoiled("cache", -1), "tokens that do not exist"),
    "token beyond": (_spoiled("cache", 2049), "tokens that do not exist"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_fields_that_do_not_fit_are_refused(
    shelf_of: Callable[[bytes], VoiceShelf], fields: Fields, tmp_path: Path, change: str
) -> None:
    act, sentence = REFUSED[change]
    with pytest.raises(InvalidInput, match=sentence):
        shelf_of(saved(act(fields))).load("X")
    assert not (tmp_path / "cache").exists(), "nothing of a refused file is kept"


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x80\x04.", b"x" * 1000], ids=repr)
def test_bytes_that_are_no_voice_are_refused(mini_checkpoint: Checkpoint, data: bytes) -> None:
    with pytest.raises(InvalidInput, match="is not a PersonaPlex voice file"):
        read_voice_bytes(data, mini_checkpoint.config, "X")


def test_a_file_of_unbelievable_size_is_not_read(shelf_of: Callable[[bytes], VoiceShelf], tmp_path: Path) -> None:
    shelf = shelf_of(b"x")
    with (tmp_path / "checkpoint" / "voices" / "X.pt").open("wb") as file:
        file.truncate(MAX_VOICE_FILE_BYTES + 1)
    with pytest.raises(InvalidInput, match="a voice file is at most 64"):
        shelf.load("X")


def test_the_conversion_is_kept_in_the_cache_and_read_from_there(
    shelf_of: Callable[[bytes], VoiceShelf], fields: Fields, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = shelf_of(saved(fields))
    before = sorted((tmp_path / "checkpoint").rglob("*"))
    first = shelf.load("X")
    (kept,) = (tmp_path / "cache").iterdir()
    assert kept.suffix == ".safetensors" and sorted((tmp_path / "checkpoint").rglob("*")) == before
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("the pickle is read again"))
    assert _equal(shelf.load("X"), first)
    assert torch.equal(first.embeddings, fields["embeddings"][:, 0, 0]) and torch.equal(first.ring, fields["cache"][0])


@pytest.mark.parametrize("content", [b"", b"x" * 100, "other width", "no key"], ids=str)
def test_a_spoiled_cache_is_made_anew(
    shelf_of: Callable[[bytes], VoiceShelf], fields: Fields, tmp_path: Path, content: Any
) -> None:
    from safetensors.torch import save

    shelf = shelf_of(saved(fields))
    first = shelf.load("X")
    (kept,) = (tmp_path / "cache").iterdir()
    ring = first.ring
    files = {
        "other width": save({"embeddings": torch.zeros(3, 64), "ring": ring}),
        "no key": save({"ring": ring}),
    }
    kept.write_bytes(files.get(content, content))
    assert _equal(shelf.load("X"), first)
    assert torch.equal(load_file(kept)["embeddings"], first.embeddings)


def test_a_changed_file_is_read_anew(shelf_of: Callable[[bytes], VoiceShelf], fields: Fields) -> None:
    first = shelf_of(saved(fields)).load("X")
    second = shelf_of(saved(fields | {"embeddings": fields["embeddings"] * 2})).load("X")
    assert torch.equal(second.embeddings, first.embeddings * 2)


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    mini_directory: Path, mini_checkpoint: Checkpoint, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    shelf = VoiceShelf(mini_directory, tmp_path / "cache", mini_checkpoint.config)
    assert _equal(shelf.load("TINY0"), shelf.load("TINY0"))


def test_bfloat16_embeddings_are_taken(
    shelf_of: Callable[[bytes], VoiceShelf], fields: Fields, mini_weights: Weights, mini_checkpoint: Checkpoint
) -> None:
    half = fields | {"embeddings": fields["embeddings"].bfloat16()}
    voice = shelf_of(saved(half)).load("X")
    rounded = VoicePrompt(embeddings=voice.embeddings.float(), ring=voice.ring)
    user = torch.zeros(8, 5, dtype=torch.int64).numpy()
    plans = (plan_prompt(one, [5, 6], mini_checkpoint.config) for one in (voice, rounded))
    first, second = (talk(mini_weights, plan, user) for plan in plans)
    assert voice.embeddings.dtype == torch.bfloat16 and (first == second).all()


def test_no_voices_at_all(mini_checkpoint: Checkpoint, tmp_path: Path) -> None:
    for directory in (None, tmp_path):
        shelf = VoiceShelf(directory, tmp_path / "cache", mini_checkpoint.config)
        with pytest.raises(InvalidInput, match="There is no voice X; this checkpoint has none at all"):
            shelf.load("X")
