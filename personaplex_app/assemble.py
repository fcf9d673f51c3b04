"""Joins the rooms: a checkpoint's name and a device become a stepper.

In: settings. Out: a ready `SpeechStepper`, or an error in one sentence.
Must not know: how any part works inside.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import torch

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import open_checkpoint
from personaplex_app.model.codec import Codec, load_codec, random_codec
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.hub import fetch_checkpoint
from personaplex_app.model.loading import Weights, load_weights, random_weights
from personaplex_app.model.prompts import VoicePrompt
from personaplex_app.model.random_checkpoint import random_tokenizer
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.model.voice_file import VoiceShelf, check_voice, encode_voice, read_voice_bytes, read_voice_file
from personaplex_app.settings import EngineChoice
from personaplex_app.sound_files import read_sound

log = logging.getLogger(__name__)

PACKAGED = ("demo", "mini")
RANDOM = "random"
HUB = "hub"
_PACKAGE = Path(__file__).parent / "checkpoints"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def pick_device(name: str) -> torch.device:
    """`auto`, `cpu` or `cuda` to a device; raises InvalidInput where there is no usable GPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InvalidInput("No CUDA GPU is usable here (driver or torch build missing); use --device cpu.")
    return torch.device(name)


def _pick_dtype(choice: EngineChoice) -> torch.dtype:
    if choice.precision != "auto":
        return _DTYPES[choice.precision]
    return torch.float32 if pick_checkpoint(choice) in PACKAGED else torch.bfloat16


def checkpoint_directory(choice: EngineChoice, report: Callable[[str], None] = lambda line: None) -> Path:
    """Where a named checkpoint's files lie; `hub` fetches them first, a reported line a file."""
    name = pick_checkpoint(choice)
    if name in PACKAGED:
        return _PACKAGE / name
    if name == HUB:
        return fetch_checkpoint(choice.token, choice.revision, choice.cache, report)
    return Path(name)


def pick_checkpoint(choice: EngineChoice) -> str:
    """The checkpoint named, else `hub` where a GPU and a token are, else the trained miniature."""
    if choice.checkpoint is not None:
        return choice.checkpoint
    return HUB if choice.token and pick_device(choice.device).type == "cuda" else PACKAGED[0]


def build_stepper(choice: EngineChoice, report: Callable[[str], None] = lambda line: None) -> SpeechStepper:
    """Loads or makes the model; raises InvalidInput for a checkpoint that cannot be used."""
    device = pick_device(choice.device)
    torch.set_num_threads(choice.threads)
    if pick_checkpoint(choice) == RANDOM:
        return _random_stepper(choice, device, report)
    directory = checkpoint_directory(choice, report)
    checkpoint = open_checkpoint(directory, allow_surplus=choice.allow_surplus)
    tokenizer = Tokenizer(checkpoint.tokenizer, checkpoint.config.language.text_card)
    codec = load_codec(checkpoint.codec, checkpoint.config, device, choice.slots)
    voices = VoiceShelf(directory, choice.cache / "voices", checkpoint.config)
    weights = load_weights(checkpoint, device, _pick_dtype(choice))
    return _stepper(choice, weights, codec, tokenizer, checkpoint.config, voices, report)


def _stepper(
    choice: EngineChoice,
    weights: Weights,
    codec: Codec,
    tokenizer: Tokenizer,
    config: CheckpointConfig,
    voices: VoiceShelf,
    report: Callable[[str], None],
) -> SpeechStepper:
    """The fast stepper where there is a GPU for it, else, and where it fails, moshi's modules step by step."""
    if choice.plain or codec.device.type == "cpu" or config.trained_positions:
        return SpeechStepper(weights, codec, tokenizer, config, voices)
    try:
        from personaplex_app.model.fast.stepper import FastStepper

        cache = torch.int8 if choice.kv_cache == "int8" else None
        return FastStepper(weights, codec, tokenizer, config, voices, cache)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        log.warning("the fast engine could not be made", exc_info=True)
        remark = f"The fast engine cannot run here ({type(error).__name__}); the plain one runs, at half the speed."
        report(remark)
        stepper = SpeechStepper(weights, codec, tokenizer, config, voices)
        stepper.remark = remark
        return stepper


def _random_stepper(choice: EngineChoice, device: torch.device, report: Callable[[str], None]) -> SpeechStepper:
    config = CheckpointConfig()
    tokenizer = Tokenizer(random_tokenizer(choice.cache), config.language.text_card)
    codec = random_codec(config, device, choice.slots)
    weights = random_weights(config.language, device, _pick_dtype(choice))
    voices = VoiceShelf(None, choice.cache / "voices", config)
    return _stepper(choice, weights, codec, tokenizer, config, voices, report)


def voice_from_file(stepper: SpeechStepper, path: Path) -> VoicePrompt:
    """A voice from a file that the operator names: sound, or a saved `.pt` voice."""
    if path.suffix == ".pt":
        if not path.is_file():
            raise InvalidInput(f"There is no file {path}.")
        return check_voice(
            read_voice_bytes(read_voice_file(path), stepper.config, path.name), stepper.config, path.name
        )
    return encode_voice(read_sound(path), stepper.codec.another(1), stepper.config)
