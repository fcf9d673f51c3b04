"""A safetensors file written block by block, so that it may be larger than the host's memory.

In: names, types and shapes of all tensors, then their bytes in that order. Out: a file that safetensors reads.
Must not know: what the tensors mean. (The library writes whole tensors only, all held at once.)

Layout: 8 bytes little-endian length of the header, the header as JSON padded with spaces to a multiple of 8, raw bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TYPE_BYTES: Mapping[str, int] = {"BF16": 2, "F32": 4}
_ALIGNMENT = 8


@dataclass(frozen=True)
class TensorSlot:
    """A tensor's place in a file: its name, its type (`BF16` or `F32`) and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.count * TYPE_BYTES[self.dtype]


def header_bytes(slots: Sequence[TensorSlot]) -> bytes:
    """Length and header of a file that holds these tensors one after another."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for slot in slots:
        end = offset + slot.size_bytes
        table[slot.name] = {"dtype": slot.dtype, "shape": list(slot.shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return len(header).to_bytes(8, "little") + header


def file_size_bytes(slots: Sequence[TensorSlot]) -> int:
    """How large the file becomes."""
    return len(header_bytes(slots)) + sum(slot.size_bytes for slot in slots)


def write_tensors(
    path: Path,
    slots: Sequence[TensorSlot],
    blocks_of: Callable[[TensorSlot], Iterable[bytes | memoryview]],
    written: Callable[[int], None] = lambda count: None,
) -> None:
    """Writes the file; `blocks_of` gives a tensor's bytes in pieces, `written` is told each piece's size.

    Raises ValueError where a tensor's pieces are not as long as its shape says; OSError from the disk.
    """
    with path.open("wb") as file:
        file.write(header_bytes(slots))
        for slot in slots:
            length = 0
            for block in _whole_bytes(blocks_of(slot)):
                file.write(block)
                length += len(block)
                written(len(block))
            if length != slot.size_bytes:
                raise ValueError(f"the tensor {slot.name} has {length} bytes, not {slot.size_bytes}")
        file.flush()
        os.fsync(file.fileno())


def _whole_bytes(blocks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Views as rows of bytes, so that their length is their size."""
    for block in blocks:
        yield block.cast("B") if isinstance(block, memoryview) and block.format != "B" else block
