"""The 18 official voices of a stand-in: random codes, in the released `.pt` format, packed as `voices.tgz`.

In: the weights file, a configuration, a seed. Out: an archive whose embeddings are what those weights give for the
codes, bit for bit, and whose token rings continue them.
Must not know: how the weights were made.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from personaplex_app.model.checkpoint import VOICES_DIR
from personaplex_app.model.config import CODEBOOKS, DELAYS, STREAMS, CheckpointConfig
from personaplex_app.model.prompts import RING_POSITIONS, VoicePrompt, plan_prompt
from personaplex_app.model.stand_in_numbers import generator_for

OFFICIAL_VOICES = tuple(
    f"{style}{sex}{number}" for style, count in (("NAT", 4), ("VAR", 5)) for sex in "FM" for number in range(count)
)
SHORTEST_FRAMES = 100  # 8 s; each voice has one frame more than the one before, so that all ends of the ring occur
_FILE_BYTES = 4096  # of a voice file, besides its embeddings
_TAR_BYTES = 2048


def voice_frames(index: int) -> int:
    """How many frames the voice has."""
    return SHORTEST_FRAMES + index


def archive_size_bytes(config: CheckpointConfig) -> int:
    """About how large the archive becomes; random numbers do not shrink."""
    positions = sum(voice_frames(index) - 1 for index in range(len(OFFICIAL_VOICES)))
    return positions * config.language.dim * 2 + len(OFFICIAL_VOICES) * (_FILE_BYTES + _TAR_BYTES)


def write_voices(path: Path, weights: Path, config: CheckpointConfig, seed: int) -> None:
    """Writes `voices/NAME.pt` for every official name; the same seed gives the same bytes."""
    with (
        path.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, data in _voice_files(weights, config, seed):
            member = tarfile.TarInfo(f"{VOICES_DIR}/{name}.pt")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def _voice_files(weights: Path, config: CheckpointConfig, seed: int) -> Iterator[tuple[str, bytes]]:
    for index, name in enumerate(OFFICIAL_VOICES):
        codes = voice_codes(name, voice_frames(index), config, seed)
        file = io.BytesIO()
        torch.save(voice_fields(codes, weights, config), file)
        yield name, file.getvalue()


def voice_codes(name: str, frames: int, config: CheckpointConfig, seed: int) -> Tensor:
    """Random codes int64 [8, frames]."""
    generator = generator_for(f"{VOICES_DIR}/{name}", seed)
    return torch.from_numpy(generator.integers(0, config.language.audio_card, size=(CODEBOOKS, frames)))


def voice_fields(codes: Tensor, weights: Path, config: CheckpointConfig) -> dict[str, Tensor]:
    """What a released voice file holds for codes int64 [8, T], T >= 4, in the weights file's own precision.

    Returns `embeddings` [T - 1, 1, 1, D]: the summed input embeddings of positions 0 .. T - 2, and `cache` int64
    [1, 17, 4]: column p % 4 holds position p of the last four that each stream knows (T more for delayed streams).
    """
    frames = codes.shape[1]
    grid = plan_prompt(VoicePrompt(codes=codes), [], config).grid
    ring = torch.empty(STREAMS, RING_POSITIONS, dtype=torch.int64)
    for position in range(frames - RING_POSITIONS, frames):
        ring[:, position % RING_POSITIONS] = grid[:, position]
    delayed = torch.tensor(DELAYS, dtype=torch.bool)
    ring[delayed, frames % RING_POSITIONS] = grid[delayed, frames]
    return {"embeddings": _embed(grid[:, : frames - 1], weights)[:, None, None], "cache": ring[None]}


def _embed(columns: Tensor, weights: Path) -> Tensor:
    """int64 [17, n] to [n, D], summed as `TemporalTransformer.embed` does; only the rows needed are read."""
    with safe_open(weights, framework="pt") as file:
        names = ["text_emb.weight"] + [f"emb.{stream}.weight" for stream in range(STREAMS - 1)]
        tables = [file.get_slice(name) for name in names]
        rows = [
            torch.stack([table[int(token)] for token in tokens]) for table, tokens in zip(tables, columns, strict=True)
        ]
    return torch.stack(rows[1:], 1).sum(-2) + rows[0]
