"""Voices of a checkpoint: the official `.pt` files read once with care, kept as safetensors afterwards.

In: a checkpoint's `voices/` folder or `voices.tgz`, or a file that the operator names. Out: `VoicePrompt`.
A visitor's file never comes here: what visitors send is sound, and takes the way of `voice_pieces`.
Must not know: sessions, the web.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Generator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from personaplex_app.audio import Pcm, split_frames
from personaplex_app.errors import InvalidInput
from personaplex_app.loudness import normalize_loudness
from personaplex_app.model.checkpoint import VOICES_ARCHIVE, VOICES_DIR
from personaplex_app.model.codec import Codec
from personaplex_app.model.config import STREAMS, CheckpointConfig
from personaplex_app.model.prompts import RING_POSITIONS, VoicePrompt, check_codes
from personaplex_app.model.voice_archive import MAX_VOICE_FILE_BYTES, archived_names, read_archived
from personaplex_app.voices import NO_VOICE, check_voice_name, is_voice_name

MAX_VOICE_FRAMES = 750  # 60 s
KEYS = {"embeddings", "cache"}


def read_voice_bytes(data: bytes, config: CheckpointConfig, name: str) -> VoicePrompt:
    """An official `.pt` voice through torch's restricted loader on the CPU, then every field checked.

    Args:
        data: the file; `embeddings` [T - 1, 1, 1, D] float32 or bfloat16, `cache` int64 [1, 17, 4].
    Raises:
        InvalidInput: the file is anything else, or holds numbers that cannot be.
    """
    try:
        _check_unpacked_size(data, name)
        loaded = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except InvalidInput:
        raise
    except Exception:  # zipfile and the restricted loader raise whatever the broken bytes led to
        raise InvalidInput(f"The voice {name} is not a PersonaPlex voice file.") from None
    if not isinstance(loaded, dict) or set(loaded) != KEYS:
        raise InvalidInput(f"The voice {name} must hold exactly {sorted(KEYS)}.")
    embeddings, cache = loaded["embeddings"], loaded["cache"]
    if not _is_plain(embeddings) or not _is_plain(cache):
        raise InvalidInput(f"The voice {name} must hold plain tensors of believable size.")
    return check_voice(VoicePrompt(embeddings=_flat(embeddings, name), ring=_ring(cache, name)), config, name)


def _check_unpacked_size(data: bytes, name: str) -> None:
    """A `.pt` file is a zip file, whose packed records could unpack to any size."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        size = sum(record.file_size for record in file.infolist())
    if size > MAX_VOICE_FILE_BYTES:
        raise InvalidInput(
            f"The voice {name} unpacks to {size >> 20} MiB; at most {MAX_VOICE_FILE_BYTES >> 20} are read."
        )


def _is_plain(value: object) -> bool:
    """A dense tensor in the host's memory; a small file can name a huge, sparse or absent one."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_nested or value.device.type != "cpu":
        return False
    return value.numel() * value.element_size() <= MAX_VOICE_FILE_BYTES


def _flat(embeddings: Tensor, name: str) -> Tensor:
    if embeddings.ndim != 4 or embeddings.shape[1:3] != (1, 1):
        raise InvalidInput(f"The voice {name}: embeddings must be [T - 1, 1, 1, D], not {list(embeddings.shape)}.")
    return embeddings[:, 0, 0].contiguous()


def _ring(cache: Tensor, name: str) -> Tensor:
    if cache.shape != (1, STREAMS, RING_POSITIONS):
        raise InvalidInput(f"The voice {name}: cache must be [1, 17, 4], not {list(cache.shape)}.")
    return cache[0].contiguous()


def check_voice(voice: VoicePrompt, config: CheckpointConfig, name: str) -> VoicePrompt:
    """Dtypes, widths, finiteness and token ranges against a checkpoint; returns the voice or raises InvalidInput."""
    embeddings, ring = voice.embeddings, voice.ring
    if embeddings is None or ring is None:
        raise InvalidInput(f"The voice {name} is incomplete.")
    language = config.language
    if embeddings.ndim != 2 or embeddings.shape[1] != language.dim:
        raise InvalidInput(
            f"The voice {name} was made for another model: its width is {embeddings.shape[-1]}, not {language.dim}."
        )
    if not 1 <= len(embeddings) < MAX_VOICE_FRAMES:
        raise InvalidInput(f"The voice {name} has {len(embeddings) + 1} frames; 2 to {MAX_VOICE_FRAMES} can be used.")
    if embeddings.dtype not in (torch.float32, torch.bfloat16) or not torch.isfinite(embeddings).all():
        raise InvalidInput(f"The voice {name}: embeddings must be finite float32 or bfloat16.")
    if ring.dtype != torch.int64:
        raise InvalidInput(f"The voice {name}: cache must be int64, not {ring.dtype}.")
    highest = torch.tensor(language.initial_tokens)[:, None]
    if ring.shape != (STREAMS, RING_POSITIONS) or not ((ring >= 0) & (ring <= highest)).all():
        raise InvalidInput(f"The voice {name}: cache holds tokens that do not exist.")
    return voice


class VoiceShelf:
    """The voices that lie with a checkpoint, by name.

    Args:
        directory: the checkpoint, or None where nothing lies on a disk.
        cache: where converted voices are kept, never inside the checkpoint.
    """

    def __init__(self, directory: Path | None, cache: Path, config: CheckpointConfig) -> None:
        self._directory = directory
        self._cache = cache
        self._config = config
        self.names = sorted({*self._list(directory)} - {NO_VOICE}) if directory else []

    def _list(self, directory: Path) -> list[str]:
        folder = directory / VOICES_DIR
        if folder.is_dir():
            return [path.stem for path in folder.glob("*.pt") if path.is_file() and is_voice_name(path.stem)]
        archive = directory / VOICES_ARCHIVE
        return archived_names(archive) if archive.is_file() else []

    def load(self, name: str) -> VoicePrompt:
        """A voice by name; raises InvalidInput that lists the names there are."""
        check_voice_name(name)
        if self._directory is None or name not in self.names:
            known = ", ".join(self.names) or "none at all"
            raise InvalidInput(f"There is no voice {name}; this checkpoint has {known}.", code="unknown_voice")
        data = self._read(self._directory, name)
        kept = self._cache / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}.safetensors"
        voice = self._read_kept(kept, name)
        if voice is None:
            voice = read_voice_bytes(data, self._config, name)
            self._keep(kept, voice)
        return voice

    def _read(self, directory: Path, name: str) -> bytes:
        path = directory / VOICES_DIR / f"{name}.pt"
        if path.is_file():
            return read_voice_file(path)
        archive = directory / VOICES_ARCHIVE
        data = read_archived(archive, name) if archive.is_file() else None
        if data is not None:
            return data
        # the files changed since the voices were listed
        raise InvalidInput(f"The voice {name} cannot be read from {VOICES_DIR}/ or {VOICES_ARCHIVE}.")

    def _read_kept(self, path: Path, name: str) -> VoicePrompt | None:
        try:
            tensors = load_file(path)
            voice = VoicePrompt(embeddings=tensors["embeddings"], ring=tensors["ring"])
            return check_voice(voice, self._config, name)
        except (FileNotFoundError, SafetensorError, OSError, KeyError, InvalidInput):
            return None

    def _keep(self, path: Path, voice: VoicePrompt) -> None:
        assert voice.embeddings is not None and voice.ring is not None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            save_file({"embeddings": voice.embeddings, "ring": voice.ring}, partial)
            partial.replace(path)
        except OSError:
            return  # a cache that cannot be written costs a second reading, nothing else


def read_voice_file(path: Path) -> bytes:
    """The bytes of a voice file of believable size."""
    size = path.stat().st_size
    if size > MAX_VOICE_FILE_BYTES:
        raise InvalidInput(f"{path} is {size / 2**20:.0f} MiB; a voice file is at most {MAX_VOICE_FILE_BYTES >> 20}.")
    return path.read_bytes()


def encode_voice(pcm: Pcm, codec: Codec, config: CheckpointConfig) -> VoicePrompt:
    """A voice from sound, as `voice_pieces` makes it, in one go."""
    pieces = voice_pieces(pcm, codec, config)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            voice: VoicePrompt = end.value
            return voice


def voice_pieces(pcm: Pcm, codec: Codec, config: CheckpointConfig) -> Generator[None, None, VoicePrompt]:
    """A voice from sound: -24 LUFS, cut into frames, encoded by a streaming codec that is reset afterwards.

    Args:
        pcm: float32 [samples], mono, 24 kHz. codec: one row of its own.
    Returns:
        pieces of one frame each, which return the voice; the codec is touched in them alone.
    Raises:
        InvalidInput: too long, too short, silent, or no numbers.
    """
    frames = torch.from_numpy(split_frames(normalize_loudness(pcm)))
    if len(frames) > MAX_VOICE_FRAMES:
        raise InvalidInput(
            f"The voice clip is {len(frames) * 0.08:.0f} s long; at most {MAX_VOICE_FRAMES * 0.08:.0f} s."
        )
    return _encoded(frames, codec, config)


def _encoded(frames: Tensor, codec: Codec, config: CheckpointConfig) -> Generator[None, None, VoicePrompt]:
    codes: list[Tensor] = []
    codec.reset(0)
    try:
        for frame in frames:
            codes.append(codec.encode(frame[None].to(codec.device))[0].cpu())
            yield
    finally:
        codec.reset(0)
    return VoicePrompt(codes=check_codes(torch.stack(codes, dim=1), config.language.audio_card, "The voice"))
