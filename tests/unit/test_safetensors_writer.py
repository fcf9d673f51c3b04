"""What our writer writes block by block is what the safetensors library reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from personaplex_app.model.safetensors_writer import TensorSlot, file_size_bytes, write_tensors

TENSORS = {
    "b.weight": torch.arange(15, dtype=torch.float32).reshape(3, 5),
    "a.odd": torch.arange(7, dtype=torch.float32).bfloat16(),
    "c.alpha": torch.ones(1, 1, 3, dtype=torch.bfloat16),
}
SLOTS = [
    TensorSlot(name, "F32" if tensor.dtype == torch.float32 else "BF16", tuple(tensor.shape))
    for name, tensor in TENSORS.items()
]


def _pieces(slot: TensorSlot) -> Iterator[memoryview | bytes]:
    """Two numbers at a time, the first as they lie in an array, the rest as bytes."""
    raw = TENSORS[slot.name].flatten().view(torch.int32 if slot.dtype == "F32" else torch.int16).numpy()
    yield raw[:2].data
    for start in range(2, len(raw), 2):
        yield raw[start : start + 2].tobytes()


def test_the_library_reads_what_was_written(tmp_path: Path) -> None:
    written: list[int] = []
    write_tensors(tmp_path / "x", SLOTS, _pieces, written.append)
    with safe_open(tmp_path / "x", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert set(file.keys()) == set(TENSORS)
        for name, tensor in TENSORS.items():
            assert torch.equal(file.get_tensor(name), tensor) and file.get_tensor(name).dtype == tensor.dtype
    size = (tmp_path / "x").stat().st_size
    assert size == file_size_bytes(SLOTS) and sum(written) == 15 * 4 + 7 * 2 + 3 * 2


def test_the_numbers_begin_at_a_multiple_of_eight(tmp_path: Path) -> None:
    for letters in range(1, 9):
        write_tensors(tmp_path / "x", [TensorSlot("n" * letters, "F32", (1,))], lambda slot: [b"abcd"])
        assert (int.from_bytes((tmp_path / "x").read_bytes()[:8], "little") + 8) % 8 == 0


@pytest.mark.parametrize("pieces", [[], [b"abc"], [b"abcd", b"e"]], ids=repr)
def test_bytes_that_do_not_fit_the_shape_are_a_fault_of_ours(tmp_path: Path, pieces: list[bytes]) -> None:
    with pytest.raises(ValueError, match=f"tensor n has {len(b''.join(pieces))} bytes, not 4"):
        write_tensors(tmp_path / "x", [TensorSlot("n", "F32", (1,))], lambda slot: pieces)
