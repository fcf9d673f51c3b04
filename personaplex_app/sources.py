"""Where a model's parts come from, by a checkpoint's name: packaged, random, the Hub's or a directory.

In: what was chosen. Out: a `Source`, checked, nothing of it loaded yet. Must not know: engines, plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Checkpoint, open_checkpoint
from personaplex_app.model.codec import Codec, load_codec, random_codec
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.hub import fetch_checkpoint
from personaplex_app.model.loading import Weights, load_weights, random_weights
from personaplex_app.model.offload import load_offloaded, random_offloaded
from personaplex_app.model.quantization import Quantization
from personaplex_app.model.random_checkpoint import random_tokenizer
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.model.voice_file import VoiceShelf
from personaplex_app.settings import EngineChoice

PACKAGED = ("demo", "mini")
RANDOM = "random"
HUB = "hub"
_PACKAGE = Path(__file__).parent / "checkpoints"

Report = Callable[[str], None]


def pick_device(name: str) -> torch.device:
    """`auto`, `cpu` or `cuda` to a device; raises InvalidInput where there is no usable GPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InvalidInput("No CUDA GPU is usable here (driver or torch build missing); use --device cpu.")
    return torch.device(name)


def pick_checkpoint(choice: EngineChoice) -> str:
    """The checkpoint named, else `hub` where a GPU and a token are, else the trained miniature."""
    if choice.checkpoint is not None:
        return choice.checkpoint
    return HUB if choice.token and pick_device(choice.device).type == "cuda" else PACKAGED[0]


def checkpoint_directory(choice: EngineChoice, report: Report = lambda line: None) -> Path:
    """Where a named checkpoint's files lie; `hub` fetches them first, a reported line a file."""
    name = pick_checkpoint(choice)
    if name in PACKAGED:
        return _PACKAGE / name
    if name == HUB:
        return fetch_checkpoint(choice.token, choice.revision, choice.cache, report)
    return Path(name)


@dataclass(frozen=True)
class Source:
    """A model's parts, to be loaded one by one; without a checkpoint they are made at random."""

    name: str
    config: CheckpointConfig
    cache: Path
    checkpoint: Checkpoint | None = None

    def tokenizer(self) -> Tokenizer:
        """Raises InvalidInput for a file that is none."""
        path = random_tokenizer(self.cache) if self.checkpoint is None else self.checkpoint.tokenizer
        return Tokenizer(path, self.config.language.text_card)

    def codec(self, device: torch.device, slots: int) -> Codec:
        """The codec with so many rows; raises InvalidInput for a file that is none."""
        if self.checkpoint is None:
            return random_codec(self.config, device, slots)
        return load_codec(self.checkpoint.codec, self.config, device, slots)

    def voices(self) -> VoiceShelf:
        """The voices that lie with the checkpoint."""
        directory = None if self.checkpoint is None else self.checkpoint.directory
        return VoiceShelf(directory, self.cache / "voices", self.config)

    def weights(
        self,
        device: torch.device,
        dtype: torch.dtype,
        quantization: Quantization = "none",
        report: Report = lambda line: None,
    ) -> Weights:
        """Both transformers; raises InvalidInput for a tensor that cannot be used."""
        if self.checkpoint is None:
            report("Making random weights ...")
            return random_weights(self.config.language, device, dtype, quantization=quantization)
        return load_weights(self.checkpoint, device, dtype, quantization, report)

    def streamed_weights(
        self, device: torch.device, dtype: torch.dtype, budget_bytes: int, report: Report = lambda line: None
    ) -> Weights:
        """The same with as many layers on the device as the budget holds; raises InvalidInput where it holds none."""
        if self.checkpoint is None:
            return random_offloaded(self.config.language, device, dtype, budget_bytes)
        return load_offloaded(self.checkpoint, device, dtype, budget_bytes, report)


def open_source(choice: EngineChoice, report: Report = lambda line: None) -> Source:
    """Finds and checks a checkpoint; raises InvalidInput for one that cannot be used."""
    name = pick_checkpoint(choice)
    if name == RANDOM:
        return Source(name, CheckpointConfig(random=True), choice.cache)
    checkpoint = open_checkpoint(checkpoint_directory(choice, report), allow_surplus=choice.allow_surplus)
    return Source(name, checkpoint.config, choice.cache, checkpoint)
