"""Rows of the codec are islands too: mask, reset, save and restore of one leave the sound of the others alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.codec import Codec, load_codec
from personaplex_app.model.codec_header import check_codec_header

SLOTS = 3
FRAMES = 24
WRAPPED_FRAMES = 160  # the codec's own ring holds 125


@pytest.fixture
def codec(mini_checkpoint: Checkpoint) -> Codec:
    return load_codec(mini_checkpoint.codec, mini_checkpoint.config, torch.device("cpu"), SLOTS)


@pytest.fixture(scope="module")
def heard() -> Tensor:
    """Noise that swells, float32 [FRAMES, SLOTS, 1920]."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(FRAMES, SLOTS, 1920, generator=generator) * torch.linspace(0.01, 0.3, FRAMES)[:, None, None]


def _run(codec: Codec, heard: Tensor, live: list[bool] | None = None) -> tuple[Tensor, Tensor]:
    """Codes [T, B, 8] and what decoding them gives, [T, B, 1920]."""
    codec.set_live(live or [True] * SLOTS)
    codes = [codec.encode(frame) for frame in heard]
    return torch.stack(codes), torch.stack([codec.decode(frame) for frame in codes])


def _rows(codec: Codec) -> list[list[Tensor]]:
    return [codec.save(slot) for slot in range(SLOTS)]


def _settled(row: list[Tensor]) -> list[Tensor]:
    """A row without its rings: at rest their next free place is scratch, which the row's next step overwrites."""
    return [tensor for tensor in row if tensor.ndim != 4]


def _equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_row_has_state_of_its_own(codec: Codec, heard: Tensor) -> None:
    fresh = _rows(codec)
    _run(codec, heard)
    used = _rows(codec)
    assert len(used[0]) > 10
    assert not any(_equal(one, other) for one, other in zip(fresh, used, strict=True))
    assert not _equal(used[0], used[1])


def test_resting_rows_keep_their_state(codec: Codec, heard: Tensor) -> None:
    _run(codec, heard[:8])
    before = [_settled(row) for row in _rows(codec)]
    _run(codec, heard[8:16], [True, False, False])
    after = [_settled(row) for row in _rows(codec)]
    assert [_equal(one, other) for one, other in zip(before, after, strict=True)] == [False, True, True]


def test_a_row_that_rested_sounds_as_if_it_had_not(codec: Codec, heard: Tensor, mini_checkpoint: Checkpoint) -> None:
    steady = load_codec(mini_checkpoint.codec, mini_checkpoint.config, torch.device("cpu"), SLOTS)
    heard = heard.repeat(7, 1, 1)[:WRAPPED_FRAMES]
    codes, pcm = _run(steady, heard)
    first = _run(codec, heard[:-20])
    _run(codec, heard[:10].flip(0), [True, False, False])
    second = _run(codec, heard[-20:])
    assert torch.equal(torch.cat([first[0], second[0]])[:, 1:], codes[:, 1:])
    assert torch.equal(torch.cat([first[1], second[1]])[:, 1:], pcm[:, 1:])


@pytest.mark.parametrize("live", [[True, True, True], [False, True, True]], ids=["among live rows", "at rest"])
def test_a_reset_row_is_as_new_and_alone(codec: Codec, heard: Tensor, live: list[bool]) -> None:
    fresh = codec.save(0)
    _run(codec, heard)
    codec.set_live(live)
    before = _rows(codec)
    codec.reset(0)
    after = _rows(codec)
    assert _equal(after[0], fresh)
    assert _equal(after[1], before[1]) and _equal(after[2], before[2])
    _run(codec, heard[:2], live)
    assert _equal(_settled(codec.save(0)), _settled(fresh)) is not live[0], "reset keeps the mask of live rows"


def test_a_reset_row_sounds_as_a_fresh_one(codec: Codec, heard: Tensor) -> None:
    codes, pcm = _run(codec, heard)
    codec.reset(0)
    again_codes, again_pcm = _run(codec, heard)
    assert torch.equal(again_codes[:, 0], codes[:, 0]) and torch.equal(again_pcm[:, 0], pcm[:, 0])
    assert not torch.equal(again_pcm[:, 1], pcm[:, 1]), "the neighbour's past went on"


def test_a_restored_row_goes_on_in_any_slot(codec: Codec, heard: Tensor) -> None:
    _run(codec, heard[:8])
    saved = codec.save(0)
    codes, pcm = _run(codec, heard[8:])
    neighbour = codec.save(0)
    codec.restore(2, saved)
    assert _equal(codec.save(2), saved) and _equal(codec.save(0), neighbour)
    moved = heard[8:][:, [1, 1, 0]]
    again_codes, again_pcm = _run(codec, moved)
    assert torch.equal(again_codes[:, 2], codes[:, 0])
    assert torch.equal(again_pcm[:, 2], pcm[:, 0])


def test_another_codec_shares_weights_and_no_streams(codec: Codec, heard: Tensor) -> None:
    twin = codec.another(1)
    before = _rows(codec)
    twin.encode(heard[0][:1])
    assert all(_equal(one, other) for one, other in zip(before, _rows(codec), strict=True))
    theirs = dict(codec.mimi.named_parameters())
    assert all(theirs[name].data_ptr() == weight.data_ptr() for name, weight in twin.mimi.named_parameters())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda held: {name: held[name] for name in list(held)[3:]}, r"it lacks the tensor \S+ and 2 more\.$"),
        (lambda held: {name: held[name] for name in list(held)[1:]}, r"it lacks the tensor \S+\.$"),
        (lambda held: held | {"a": torch.zeros(1), "b": torch.zeros(1)}, r"unknown is the tensor a and 1 more\.$"),
        (
            lambda held: {name: one[..., :-1] if one.ndim else one for name, one in held.items()},
            "(size mismatch for|of another shape is)",
        ),
    ],
    ids=["lacks three", "lacks one", "two more", "other shapes"],
)
def test_what_does_not_fit_is_named_once(
    mini_checkpoint: Checkpoint, tmp_path: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]], said: str
) -> None:
    path = tmp_path / "codec.safetensors"
    held = load_file(mini_checkpoint.codec)
    save_file({name: one.contiguous() for name, one in change(held).items()}, path)
    with pytest.raises(InvalidInput, match=said) as refused:
        load_codec(path, mini_checkpoint.config, torch.device("cpu"), 1)
    assert len(refused.value.sentence) < 400
    if "unknown" not in said:
        with pytest.raises(InvalidInput, match=said):
            check_codec_header(path, mini_checkpoint.config)


def test_a_good_codec_s_header_is_taken(mini_checkpoint: Checkpoint) -> None:
    check_codec_header(mini_checkpoint.codec, mini_checkpoint.config)


def test_a_broken_codec_file_is_refused(mini_checkpoint: Checkpoint, tmp_path) -> None:
    whole = mini_checkpoint.codec.read_bytes()
    for content in (b"", whole[:1000], mini_checkpoint.weights.read_bytes()):
        path = tmp_path / "codec.safetensors"
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="not the codec that this checkpoint describes"):
            load_codec(path, mini_checkpoint.config, torch.device("cpu"), 1)
