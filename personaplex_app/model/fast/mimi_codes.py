"""Launches of the quantizer: latents to codes, codebook after codebook, and codes back to columns.

In: latents or codes. Out: codes or columns.
Must not know: convolutions, transformers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from personaplex_app.model.fast import mimi_plan as plan
from personaplex_app.model.fast.codec_kernels_codes import last_codes, look_up, search_codebook


class Search:
    """Encoding with the codebooks of both halves; scratch memory for `slots` rows."""

    def __init__(self, books: Tensor, semantic: int, slots: int) -> None:
        codebooks, bins, width = books.shape
        device = books.device
        self._books = books
        self._semantic = semantic
        self._levels = max(semantic, codebooks - semantic)
        self._blocks = -(-bins // plan.ENTRIES_A_SEARCH)
        self.latents = torch.empty(slots, 1, 2 * width, device=device)
        self.codes = torch.zeros(slots, codebooks, dtype=torch.int64, device=device)
        self._rests = [torch.empty_like(self.latents) for _ in range(2)]
        self._values = [torch.empty(slots, 2, self._blocks, device=device) for _ in range(2)]
        self._entries = [torch.empty(slots, 2, self._blocks, dtype=torch.int32, device=device) for _ in range(2)]

    def run(self, b: int) -> Tensor:
        """The codes of the first b rows of `latents`, int64 [b, codebooks]; the next run overwrites them."""
        for level in range(self._levels):
            self._search(b, level)
        last_codes[(b, 2)](
            self._values[0],
            self._entries[0],
            self._values[1],
            self._entries[1],
            self.codes,
            self._blocks,
            self._semantic,
            self.codes.shape[1],
            BLOCKS=plan.power_of_two(self._blocks),
        )
        return self.codes[:b]

    def _search(self, b: int, level: int) -> None:
        codebooks, bins, width = self._books.shape
        halves = [half for half, levels in enumerate((self._semantic, codebooks - self._semantic)) if level < levels]
        before, after = self._rests[(level - 1) % 2], self._rests[level % 2]
        at_once = plan.rows_a_search(b)
        search_codebook[(self._blocks, -(-b // at_once), len(halves))](
            self.latents if level < 2 else before,
            after if level else None,
            self._books,
            self._values[(level - 1) % 2],
            self._entries[(level - 1) % 2],
            self._values[level % 2],
            self._entries[level % 2],
            self.codes,
            b,
            bins,
            level,
            self._semantic,
            halves[0],
            codebooks,
            D=width,
            BLOCK_D=plan.power_of_two(width),
            ROWS=at_once,
            BLOCK_N=plan.ENTRIES_A_SEARCH,
            BLOCKS=plan.power_of_two(self._blocks),
        )


def spread_codes(codes: Tensor, books: Tensor, spread: Tensor, latents: Tensor, out: Tensor) -> None:
    """Codes int64 [b, codebooks] in one piece to columns, one launch.

    Args:
        books: [codebooks, bins, C]. spread: [2 * stride, C].
        latents: [b, 2, C], the latent before and room for the new one. out: [b, stride, C], columns in one piece.
    """
    codebooks, bins, channels = books.shape
    look_up[(codes.shape[0], -(-channels // plan.CHANNELS_A_LOOK_UP))](
        codes,
        books,
        spread,
        latents,
        out,
        bins,
        channels,
        latents.stride(0),
        out.stride(0),
        CODEBOOKS=codebooks,
        STRIDE=spread.shape[0] // 2,
        BLOCK=plan.CHANNELS_A_LOOK_UP,
        num_warps=2,
    )
