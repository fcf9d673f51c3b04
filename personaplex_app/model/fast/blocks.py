"""The past of every row in blocks of 64 positions: memory follows what is used, and nothing has to move.

In: keys and values. Out: a table of addresses that the attention kernel reads on the device.
Must not know: layers' weights, sessions.

Shapes: L layers, H heads, E head width, P positions of a block, C context.
"""

from __future__ import annotations

import torch
from torch import Tensor

from personaplex_app.model.config import LanguageConfig

BLOCK_POSITIONS = 64
SCALE_BYTES = 4


class BlockPool:
    """Blocks, taken and given back; memory that was used once is kept for the next talk.

    Args:
        cache: the blocks' element type; int8 brings a float32 scale for each head and position.
    """

    def __init__(self, config: LanguageConfig, device: torch.device, cache: torch.dtype) -> None:
        self.config = config
        self.device = device
        self.cache = cache
        self._free: list[Tensor] = []
        self.made = 0
        lines = config.layers * 2 * config.heads * BLOCK_POSITIONS
        self._element_bytes = lines * config.head_dim * cache.itemsize
        self.block_bytes = self._element_bytes + (lines * SCALE_BYTES if cache == torch.int8 else 0)

    def take(self) -> Tensor:
        """uint8 [block_bytes]."""
        if self._free:
            return self._free.pop()
        self.made += 1
        return self.fresh()

    def fresh(self) -> Tensor:
        """uint8 [block_bytes] that never belong to the pool."""
        return torch.empty(self.block_bytes, dtype=torch.uint8, device=self.device)

    def give(self, block: Tensor) -> None:
        """The block is free again; its bytes are never read before they are written."""
        self._free.append(block)

    def trim(self) -> None:
        """Gives free blocks back to the device."""
        self.made -= len(self._free)
        self._free.clear()

    def elements(self, block: Tensor) -> Tensor:
        """[L, 2, H, P, E] of a block."""
        c = self.config
        return block[: self._element_bytes].view(self.cache).view(c.layers, 2, c.heads, BLOCK_POSITIONS, c.head_dim)

    def scales(self, block: Tensor) -> Tensor:
        """float32 [L, 2, H, P] of an 8-bit block."""
        c = self.config
        return block[self._element_bytes :].view(torch.float32).view(c.layers, 2, c.heads, BLOCK_POSITIONS)


class PagedPast:
    """B rows' pasts.

    Attributes:
        table: int64 [B, C / P], the address of each row's blocks, 0 where there is none yet.
    """

    def __init__(self, pool: BlockPool, rows: int) -> None:
        self.pool = pool
        self._per_row = -(-pool.config.context // BLOCK_POSITIONS)
        self.table = torch.zeros((rows, self._per_row), dtype=torch.int64, device=pool.device)
        self._blocks: list[list[Tensor]] = [[] for _ in range(rows)]
        even_first = torch.arange(pool.config.head_dim, device=pool.device).view(-1, 2).T.flatten()
        self._stored_order, self._model_order = even_first, torch.argsort(even_first)

    def make_room(self, row: int, place: int) -> None:
        """The ring place can be written from now on."""
        blocks = self._blocks[row]
        while len(blocks) * BLOCK_POSITIONS <= place:
            block = self.pool.take()
            self.table[row, len(blocks)] = block.data_ptr()
            blocks.append(block)

    def clear(self, row: int) -> None:
        """Gives the row's blocks back."""
        for block in self._blocks[row]:
            self.pool.give(block)
        self._blocks[row] = []

    def used_bytes(self, row: int) -> int:
        """Memory that a row holds."""
        return len(self._blocks[row]) * self.pool.block_bytes

    def write(self, row: int, kv: Tensor) -> None:
        """Puts a past of n positions, [L, 2, H, n, E] as the model has it, on any device, into a row that is clear."""
        count = kv.shape[3]
        if count:
            self.make_room(row, count - 1)
        self._fill(self._blocks[row], kv)

    def packed(self, kv: Tensor) -> list[Tensor]:
        """The same as a row would hold it, in blocks that are no row's: what `take_copies` takes."""
        blocks = [self.pool.fresh() for _ in range(-(-kv.shape[3] // BLOCK_POSITIONS))]
        self._fill(blocks, kv)
        return blocks

    def _fill(self, blocks: list[Tensor], kv: Tensor) -> None:
        for index, block in enumerate(blocks):
            piece = kv[:, :, :, index * BLOCK_POSITIONS : (index + 1) * BLOCK_POSITIONS].to(self.pool.device)
            self._write_block(block, torch.stack([piece[:, 0][..., self._stored_order], piece[:, 1]], 1))

    def copies(self, row: int) -> list[Tensor]:
        """The row's blocks, copied as they are."""
        return [block.clone() for block in self._blocks[row]]

    def take_copies(self, row: int, blocks: list[Tensor]) -> None:
        """Puts such copies into a row that is clear."""
        self.make_room(row, len(blocks) * BLOCK_POSITIONS - 1)
        for block, copy in zip(self._blocks[row], blocks, strict=True):
            block.copy_(copy)

    def _write_block(self, block: Tensor, piece: Tensor) -> None:
        count = piece.shape[3]
        if self.pool.cache == torch.int8:
            scales = piece.float().abs().amax(-1).clamp(min=1e-20) / 127.0
            self.pool.scales(block)[..., :count] = scales
            piece = torch.floor(piece.float() / scales[..., None] + 0.5)
        self.pool.elements(block)[:, :, :, :count] = piece.to(self.pool.cache)

    def read(self, row: int, count: int, dtype: torch.dtype) -> Tensor:
        """A copy of the first `count` ring places, [L, 2, H, count, E] as the model has it."""
        c = self.pool.config
        kv = torch.empty((c.layers, 2, c.heads, count, c.head_dim), dtype=dtype, device=self.pool.device)
        for index in range(-(-count // BLOCK_POSITIONS)):
            at = slice(index * BLOCK_POSITIONS, min(count, (index + 1) * BLOCK_POSITIONS))
            block, size = self._blocks[row][index], at.stop - at.start
            piece = self.pool.elements(block)[:, :, :, :size].to(
                torch.float32 if self.pool.cache == torch.int8 else dtype
            )
            if self.pool.cache == torch.int8:
                piece = piece * self.pool.scales(block)[..., :size, None]
            kv[:, 0, :, at] = piece[:, 0][..., self._model_order].to(dtype)
            kv[:, 1, :, at] = piece[:, 1].to(dtype)
        return kv
