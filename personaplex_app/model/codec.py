"""The Mimi codec with one streaming row per slot: mask, reset, save and restore by row.

In: float32 frames [B, 1920], codes [B, 8]. Out: codes, frames. moshi keeps the streaming state in its modules;
this file is the only place that touches it there.
Must not know: the language model, sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from moshi.models import loaders
from moshi.models.compression import MimiModel
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from personaplex_app.audio import FRAME_SAMPLES
from personaplex_app.errors import InvalidInput
from personaplex_app.model.config import CODEBOOKS, CheckpointConfig

CodecRow = list[Tensor]


class Codec:
    """Mimi for B independent streams, float32.

    Encoder and decoder of a row advance together: a live row encodes one frame and decodes one frame a step.
    """

    def __init__(self, mimi: MimiModel, config: CheckpointConfig, slots: int) -> None:
        self.mimi = mimi
        self.config = config
        self.slots = slots
        self.device = next(mimi.parameters()).device
        if self.device.type == "cuda":
            torch.backends.cudnn.allow_tf32 = False  # codes must not depend on rounding to 10 bits
        with torch.inference_mode():
            mimi.streaming_forever(slots)
        self._live = [True] * slots

    @torch.inference_mode()
    def another(self, slots: int) -> Codec:
        """A codec with streams of its own over the same weights."""
        twin = _build(self.config, self.device)
        twin.load_state_dict(self.mimi.state_dict(), assign=True)
        return Codec(twin.requires_grad_(False), self.config, slots)

    @torch.inference_mode()
    def set_live(self, live: list[bool]) -> None:
        """Which rows take part from now on; the state of the others rests."""
        if live != self._live:
            self.mimi.set_exec_mask(torch.tensor(live, device=self.device))
            self._live = list(live)

    @torch.inference_mode()
    def encode(self, frames: Tensor) -> Tensor:
        """float32 [B, 1920] to codes int64 [B, 8]."""
        return self.mimi.encode(frames.unsqueeze(1))[:, :, 0]

    @torch.inference_mode()
    def decode(self, codes: Tensor) -> Tensor:
        """Codes int64 [B, 8] to float32 [B, 1920]."""
        return self.mimi.decode(codes.unsqueeze(2))[:, 0]

    @torch.inference_mode()
    def reset(self, slot: int) -> None:
        """A row as new: both directions forget."""
        mask = torch.zeros(self.slots, dtype=torch.bool, device=self.device)
        mask[slot] = True
        # moshi clears counters only; old keys would stay where no one may read them, but a fresh row holds zeros.
        for tensor in self._rows(slot):
            tensor.zero_()
        self.mimi.reset_streaming(mask)
        self.mimi.set_exec_mask(torch.tensor(self._live, device=self.device))

    @torch.inference_mode()
    def save(self, slot: int) -> CodecRow:
        """A copy of a row's state, both directions."""
        return [tensor.clone() for tensor in self._rows(slot)]

    @torch.inference_mode()
    def restore(self, slot: int, row: CodecRow) -> None:
        """Puts a copy into a row."""
        for tensor, saved in zip(self._rows(slot), row, strict=True):
            tensor.copy_(saved)

    def _rows(self, slot: int) -> Iterator[Tensor]:
        """Views of every state tensor's row; the mask of live rows is no part of a row's state."""
        for _, state in sorted(self.mimi.get_streaming_state().items()):
            for name in ("previous", "first", "partial", "offset"):
                tensor = getattr(state, name, None)
                if isinstance(tensor, Tensor):
                    yield tensor[slot : slot + 1]
            ring = getattr(state, "kv_cache", None)
            if ring is not None:
                yield ring.cache[:, slot]
                yield ring.end_offset[slot : slot + 1]


def _build(config: CheckpointConfig, device: torch.device | str) -> MimiModel:
    return loaders.get_mimi(None, config.mimi, device=device, num_codebooks=CODEBOOKS)


def load_codec(path: Path, config: CheckpointConfig, device: torch.device, slots: int) -> Codec:
    """Mimi from a safetensors file, strictly; raises InvalidInput that names what does not fit."""
    try:
        mimi = _build(config, device)
    except Exception as error:  # moshi asserts and indexes its way through whatever config.json says
        raise InvalidInput(f"{path}: mimi_config in config.json is not usable: {error!r}") from None
    try:
        tensors = load_file(path, device=str(device))
        _check_finite(tensors, path)
        floats = {name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}
        misfits = mimi.load_state_dict(floats, strict=False)
    except (SafetensorError, OSError, RuntimeError) as error:
        lines = [" ".join(line.split()) for line in str(error).splitlines()]
        mismatch = next((line for line in lines if line.startswith("size mismatch")), " ".join(lines))
        raise InvalidInput(f"{path} is not the codec that this checkpoint describes: {mismatch[:300]}") from None
    for names, verb in ((misfits.missing_keys, "it lacks"), (misfits.unexpected_keys, "unknown is")):
        if names:
            raise InvalidInput(f"{path} is not the codec that this checkpoint describes: {verb} {list_words(names)}.")
    if mimi.frame_size != FRAME_SAMPLES:
        raise InvalidInput(f"{path}: this codec's frame is {mimi.frame_size} samples, not {FRAME_SAMPLES}.")
    return Codec(mimi.requires_grad_(False), config, slots)


def list_words(names: Sequence[str]) -> str:
    """The first of some tensors, and how many more there are."""
    return f"the tensor {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _check_finite(tensors: dict[str, Tensor], path: Path) -> None:
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise InvalidInput(f"{path}: the tensor {name} is {tensor.dtype}; expected is a floating-point type.")
        if not torch.isfinite(tensor).all():
            raise InvalidInput(f"{path}: the tensor {name} holds a number that is not finite.")


@torch.inference_mode()
def random_codec(config: CheckpointConfig, device: torch.device, slots: int, seed: int = 0) -> Codec:
    """Full-size Mimi with random weights and random codebooks: the cost of the real one, not its sound."""
    torch.manual_seed(seed)
    mimi = _build(config, device)
    for name, buffer in mimi.named_buffers():
        if name.endswith("embedding_sum"):
            buffer.normal_()
        elif name.endswith(("cluster_usage", "_initialized")):
            buffer.fill_(1.0)
    return Codec(mimi.requires_grad_(False), config, slots)
