"""Joins the rooms: a checkpoint's name and a device become a stepper.

In: settings. Out: a ready `SpeechStepper`, or an error in one sentence.
Must not know: how any part works inside.
"""

from __future__ import annotations

import gc
import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from personaplex_app.audio import FRAME_MS
from personaplex_app.errors import InvalidInput, PersonaplexError
from personaplex_app.layout_checks import kernel_flags
from personaplex_app.layouts import Setting, settle
from personaplex_app.model.card import hold_memory
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.frame_time import measured_frame_ms
from personaplex_app.model.loading import Weights
from personaplex_app.model.offload import streamed_layers
from personaplex_app.model.offload_plan import offload_sentence
from personaplex_app.model.prompts import VoicePrompt
from personaplex_app.model.stepper import RunsAs, SpeechStepper
from personaplex_app.model.tokenizer import Tokenizer
from personaplex_app.model.voice_file import VoiceShelf, check_voice, encode_voice, read_voice_bytes, read_voice_file
from personaplex_app.out_of_memory import is_out_of_memory, memory_told, smaller_plan
from personaplex_app.planner import AUTO, Plan, layout_words
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
DOCTOR = "`python -m personaplex_app doctor` says what is missing"


def build_stepper(choice: EngineChoice, report: Report = lambda line: None) -> SpeechStepper:
    """Loads or makes the model, planned where a GPU is to carry it; a talk's stepper is rehearsed with full windows.

    Raises InvalidInput for what cannot be used, ServerFault (code `out_of_memory`) where memory runs out.
    """
    device = pick_device(choice.device)
    torch.set_num_threads(choice.threads)
    if choice.gpu_memory_bytes is not None and device.type == "cuda":
        hold_memory(device, choice.gpu_memory_bytes)
    if pick_checkpoint(choice) == HUB:  # a refusal is heard before 17 GB are fetched
        settle(choice, HUB, CheckpointConfig(), device)
    source = open_source(choice, report)
    setting = settle(choice, source.name, source.config, device)
    _report_plan(setting, report)
    stepper = _stepper(choice, source, setting, device, report)
    stepper.identity = source.checkpoint.identity if source.checkpoint else ""
    if choice.purpose == "talk":
        with memory_told("while every line was tried with a full window", lambda: smaller_plan(stepper)):
            _rehearse(stepper, report)
    return stepper


def _report_plan(setting: Setting, report: Report) -> None:
    if setting.plan is not None:
        report(f"The plan: {setting.plan.words}")


def _stepper(
    choice: EngineChoice, source: Source, setting: Setting, device: torch.device, report: Report
) -> SpeechStepper:
    """The fast stepper where there is a GPU for it, else, and where it fails, moshi's modules step by step."""
    remark = ""
    if setting.fast:
        with _loading(choice, setting):
            made = _fast_or_why_not(source, setting, device, report)
        if isinstance(made, SpeechStepper):
            made.runs_as = _runs_as(setting, device)
            return made
        _give_back(device)  # what the fast one had loaded: the plan for the plain one counts what is free
        setting = _without_kernels(made, choice, source, device)
        remark = f"{made}; the plain one runs{_laid_out(setting)}."
        report(remark)
        _report_plan(setting, report)
    with _loading(choice, setting):
        codec = source.codec(device, setting.slots)
        weights = _weights(source, setting, device, report)
        stepper = SpeechStepper(weights, codec, source.tokenizer(), source.config, source.voices())
    stepper.remark, stepper.plan, stepper.smaller = remark, setting.plan, setting.less
    stepper.runs_as = _runs_as(setting, device)
    return stepper


def _runs_as(setting: Setting, device: torch.device) -> RunsAs:
    precision = str(setting.dtype).removeprefix("torch.") if setting.quantization == "none" else setting.quantization
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type.upper()
    return RunsAs(precision, "int8" if setting.cache is torch.int8 else "", where)


def _loading(choice: EngineChoice, setting: Setting) -> AbstractContextManager[None]:
    """Out of memory in here is told in words; a bench tells by itself what ran out."""
    if choice.purpose == "bench":
        return nullcontext()
    return memory_told("while the model was loaded", lambda: setting.smaller)


def _fast_or_why_not(source: Source, setting: Setting, device: torch.device, report: Report) -> SpeechStepper | str:
    """The fast stepper, or in words that it cannot run; nothing that was loaded for it is held then."""
    try:
        tokenizer, voices = source.tokenizer(), source.voices()
        codec = _fast_codec(source, setting, device)  # moshi's modules are gone when the weights come
        weights = _weights(source, setting, device, report)
        return _fast_stepper(source.config, setting, weights, codec, tokenizer, voices, report)
    except PersonaplexError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        log.warning("the fast engine could not be made", exc_info=error)
        return f"The fast engine cannot run here ({type(error).__name__})"


def _give_back(device: torch.device) -> None:
    """Memory of what nobody holds any more goes back to the GPU."""
    gc.collect()  # modules refer to each other
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _weights(source: Source, setting: Setting, device: torch.device, report: Report) -> Weights:
    if setting.budget_bytes is not None:
        return source.streamed_weights(device, setting.dtype, setting.budget_bytes, report)
    return source.weights(device, setting.dtype, setting.quantization, report)


def _fast_codec(source: Source, setting: Setting, device: torch.device) -> FastCodec:
    """The codec in kernels of our own; its modules leave no memory taken. Raises where it cannot run."""
    from personaplex_app.model.fast.codec import FastCodec
    from personaplex_app.model.fast.language import bucket_for

    codec = FastCodec.of(source.codec(device, setting.slots), bucket_for(setting.slots))
    _give_back(device)
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


def _without_kernels(why: str, choice: EngineChoice, source: Source, device: torch.device) -> Setting:
    """The setting for the plain engine where the kernels fail; raises InvalidInput where it cannot take over."""
    asked = kernel_flags(choice)
    try:
        if not asked:
            return settle(choice, source.name, source.config, device, broken=True)
        instead = _plain_flags(choice, source, device)
    except InvalidInput as refused:
        raise InvalidInput(
            f"{why} ({DOCTOR}), and the plain one cannot take over: {refused.sentence}", code=refused.code
        ) from None
    verb = "need" if " and " in asked else "needs"
    raise InvalidInput(f"{why}, and {asked} {verb} it: {DOCTOR}, or start with {instead}.") from None


def _plain_flags(choice: EngineChoice, source: Source, device: torch.device) -> str:
    """Flags with which the plain engine runs in place of what only the kernels can; raises InvalidInput."""
    free = replace(choice, precision=AUTO, kv_cache=AUTO)
    try:
        setting = settle(free, source.name, source.config, device, broken=True)
    except InvalidInput:
        setting = settle(replace(free, slots=None), source.name, source.config, device, broken=True)
    precision = str(setting.dtype).removeprefix("torch.")
    slots = "" if choice.slots in (None, setting.slots) else f" --slots {setting.slots}"
    return f"--plain-engine --precision {precision} --kv-cache model{slots}"


def _laid_out(setting: Setting) -> str:
    return f" as {layout_words(setting.plan.layout)}" if setting.plan is not None else ""


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
