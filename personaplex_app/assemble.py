"""Joins the rooms: a checkpoint's name and a device become a stepper.

In: settings. Out: a ready `SpeechStepper`, or an error in one sentence.
Must not know: how any part works inside.
"""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from personaplex_app.audio import FRAME_MS
from personaplex_app.errors import InvalidInput, PersonaplexError
from personaplex_app.layouts import Setting, settle
from personaplex_app.model.card import hold_memory
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.frame_time import measured_frame_ms
from personaplex_app.model.loading import Weights
from personaplex_app.model.offload import streamed_layers
from personaplex_app.model.offload_plan import offload_sentence
from personaplex_app.model.prompts import VoicePrompt
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.model.voice_file import VoiceShelf, check_voice, encode_voice, read_voice_bytes, read_voice_file
from personaplex_app.out_of_memory import is_out_of_memory, memory_told
from personaplex_app.planner import Plan, layout_words
from personaplex_app.settings import EngineChoice
from personaplex_app.sound_files import read_sound
from personaplex_app.sources import (
    HUB,
    PACKAGED,
    RANDOM,
    Report,
    Source,
    checkpoint_directory,
    open_source,
    pick_checkpoint,
    pick_device,
)

if TYPE_CHECKING:
    from personaplex_app.model.fast.codec import FastCodec

__all__ = [
    "HUB",
    "PACKAGED",
    "RANDOM",
    "build_stepper",
    "checkpoint_directory",
    "describe",
    "pick_checkpoint",
    "pick_device",
    "voice_from_file",
]

log = logging.getLogger(__name__)


def build_stepper(choice: EngineChoice, report: Report = lambda line: None) -> SpeechStepper:
    """Loads or makes the model, planned where a GPU is to carry it; a talk's stepper is rehearsed with full windows.

    Raises InvalidInput for what cannot be used, ServerFault (code `out_of_memory`) where memory runs out.
    """
    device = pick_device(choice.device)
    torch.set_num_threads(choice.threads)
    source = open_source(choice, report)
    if choice.gpu_memory_bytes is not None and device.type == "cuda":
        hold_memory(device, choice.gpu_memory_bytes)
    setting = settle(choice, source.name, source.config, device)
    plan = setting.plan
    if plan is not None:
        report(f"The plan: {plan.words}")
    if choice.purpose == "bench":  # which tells by itself what ran out of memory
        return _stepper(source, setting, device, report)
    with memory_told("while the model was loaded", lambda: plan.smaller if plan else ""):
        stepper = _stepper(source, setting, device, report)
    stepper.identity = source.checkpoint.identity if source.checkpoint else ""
    if choice.purpose == "talk":
        with memory_told("while every line was tried with a full window", lambda: plan.smaller if plan else ""):
            _rehearse(stepper, report)
    return stepper


def _stepper(source: Source, setting: Setting, device: torch.device, report: Report) -> SpeechStepper:
    """The fast stepper where there is a GPU for it, else, and where it fails, moshi's modules step by step."""
    tokenizer, voices = source.tokenizer(), source.voices()
    weights, remark = None, ""
    if setting.fast:
        try:
            fast_codec = _fast_codec(source, setting, device)  # moshi's modules are gone when the weights come
            weights = _weights(source, setting, device, report)
            return _fast_stepper(source.config, setting, weights, fast_codec, tokenizer, voices, report)
        except PersonaplexError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            remark = _without_kernels(error, setting)
            report(remark)
    codec = source.codec(device, setting.slots)
    weights = weights or _weights(source, setting, device, report)
    stepper = SpeechStepper(weights, codec, tokenizer, source.config, voices)
    stepper.remark = remark
    if not setting.fast:
        stepper.plan = setting.plan
    return stepper


def _weights(source: Source, setting: Setting, device: torch.device, report: Report) -> Weights:
    if setting.budget_bytes is not None:
        return source.streamed_weights(device, setting.dtype, setting.budget_bytes, report)
    return source.weights(device, setting.dtype, setting.quantization, report)


def _fast_codec(source: Source, setting: Setting, device: torch.device) -> FastCodec:
    """The codec in kernels of our own; its modules leave no memory taken. Raises where it cannot run."""
    from personaplex_app.model.fast.codec import FastCodec
    from personaplex_app.model.fast.language import bucket_for

    codec = FastCodec.of(source.codec(device, setting.slots), bucket_for(setting.slots))
    gc.collect()  # modules refer to each other
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return codec


def _fast_stepper(
    config: CheckpointConfig,
    setting: Setting,
    weights: Weights,
    codec: FastCodec,
    tokenizer: Tokenizer,
    voices: VoiceShelf,
    report: Report,
) -> SpeechStepper:
    """Raises where Triton or the GPU cannot do it."""
    from personaplex_app.model.fast.prompt_states import PromptStates
    from personaplex_app.model.fast.stepper import FastStepper

    stepper = FastStepper(weights, codec, tokenizer, config, voices, setting.cache, report)
    if setting.plan is not None:
        stepper.plan = setting.plan
        cast("Any", stepper.language).prompts = PromptStates(setting.plan.prompt_bytes)
    return stepper


def _without_kernels(error: Exception, setting: Setting) -> str:
    """What people should know when the plain engine takes over; raises InvalidInput where it cannot."""
    log.warning("the fast engine could not be made", exc_info=error)
    why = f"The fast engine cannot run here ({type(error).__name__})"
    if setting.quantization != "none":
        raise InvalidInput(
            f"{why}, and {setting.quantization} weights need it: `python -m personaplex_app doctor` says what is "
            f"missing, or take --precision bfloat16."
        ) from None
    return f"{why}; the plain one runs, at half the speed."


def _rehearse(stepper: SpeechStepper, report: Report) -> None:
    """Times a full house with full windows where that is not known; the stepper's summary says what came out."""
    plan, weights = stepper.plan, stepper.language.weights
    streamed = streamed_layers(weights)
    if streamed:
        said = offload_sentence(measured_frame_ms(stepper), streamed, weights.config.layers)
        stepper.summary = f"{said[:1].upper()}{said[1:]}"
        report(stepper.summary)
    elif plan is not None:
        stepper.summary = describe(stepper, plan, _full_house_ms(stepper))
        report(f"{stepper.summary} The plan said {plan.frame_ms:.0f} ms.")


def _full_house_ms(stepper: SpeechStepper) -> float:
    from personaplex_app.model.fast.stepper import FastStepper
    from personaplex_app.model.rehearsal import rehearse

    return rehearse(stepper) if isinstance(stepper, FastStepper) else measured_frame_ms(stepper)


def describe(stepper: SpeechStepper, plan: Plan | None, measured_ms: float) -> str:
    """What the page says of the model and its true speed with every line taken and every window full."""
    if plan is None:
        return stepper.summary
    what = f"{plan.sizes.name} as {layout_words(plan.layout)} on {plan.card.name}"
    when = "with the window full" if stepper.slots == 1 else "with every line taken and every window full"
    if measured_ms <= FRAME_MS:
        return f"{what}: {when} a frame takes {measured_ms:.1f} ms of {FRAME_MS:.0f}."
    return (
        f"{what}: {when} a frame takes {measured_ms:.0f} ms, more than the {FRAME_MS:.0f} that it lasts: not real time "
        f"here. Offline render works; for talks start with {plan.smaller}."
    )


def voice_from_file(stepper: SpeechStepper, path: Path) -> VoicePrompt:
    """A voice from a file that the operator names: sound, or a saved `.pt` voice."""
    if path.suffix == ".pt":
        if not path.is_file():
            raise InvalidInput(f"There is no file {path}.")
        return check_voice(
            read_voice_bytes(read_voice_file(path), stepper.config, path.name), stepper.config, path.name
        )
    return encode_voice(read_sound(path), stepper.codec.another(1), stepper.config)
