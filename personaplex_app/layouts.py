"""What was chosen and what the machine is become a layout: device, lines, precision, past.

In: a choice, a model's configuration, a device. Out: `Setting`, or InvalidInput in words with numbers.
Must not know: how anything is loaded, engines' insides.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from personaplex_app.errors import InvalidInput
from personaplex_app.layout_checks import check_cpu_room, check_flags, less_on_cpu
from personaplex_app.model.card import read_card
from personaplex_app.model.config import CheckpointConfig
from personaplex_app.model.host_memory import available_bytes
from personaplex_app.model.quantization import Quantization
from personaplex_app.model.sizes import RELEASED, model_sizes
from personaplex_app.plan_costs import ModelSizes
from personaplex_app.planner import AUTO, Plan, Wishes, make_plan, offload_budget
from personaplex_app.settings import EngineChoice
from personaplex_app.sources import PACKAGED, RANDOM

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
RANDOM_NAME = "Random weights of PersonaPlex-7B's size"
QUANTIZED: dict[str, Quantization] = {"int8": "int8", "int4": "int4"}


@dataclass(frozen=True)
class Setting:
    """How a model is set up.

    Attributes:
        quantization: `none`, `int8` or `int4`. cache: element type of the past, None for the weights' own.
        fast: with the compiled kernels. plan: what it was planned from, where it was.
        budget_bytes: GPU memory that weights may take where the others stream from host memory.
        less: flags that need less memory, where nothing was planned and they are known.
    """

    slots: int
    dtype: torch.dtype
    quantization: Quantization = "none"
    cache: torch.dtype | None = None
    fast: bool = False
    plan: Plan | None = None
    budget_bytes: int | None = None
    less: str = field(default="", compare=False)

    @property
    def smaller(self) -> str:
        """Flags of what needs less memory; empty where nobody knows."""
        return self.plan.smaller if self.plan is not None else self.less


def settle(
    choice: EngineChoice, name: str, config: CheckpointConfig, device: torch.device, *, broken: bool = False
) -> Setting:
    """The setting for a model on a device; the planner decides on a GPU what was left open.

    The packaged miniatures are not planned: they fit anywhere. broken: the compiled kernels have failed here, which
    are not offered then. Raises InvalidInput where it cannot be.
    """
    choice = replace(choice, plain=choice.plain or broken)
    plain = choice.plain or choice.cpu_offload or bool(config.trained_positions)
    trained = bool(config.trained_positions)
    small = name in PACKAGED or trained
    check_flags(choice, cpu=device.type == "cpu", trained_miniature=trained, fits_anywhere=small)
    usual = "float32" if name in PACKAGED else "bfloat16"
    if device.type == "cpu":
        return _on_cpu(choice, name, config, usual)
    if small:
        return _unplanned(choice, usual, fast=not plain)
    if choice.cpu_offload:
        return _offloaded(choice, name, config, device)
    plan = _plan(choice, name, config, device, broken)
    if plan is None:
        return _unplanned(choice, usual, fast=not plain)
    layout = plan.layout
    cache = torch.int8 if layout.kv_cache == "int8" else None
    dtype, quantization = _numbers(layout.precision)
    return Setting(layout.slots, dtype, quantization, cache, fast=not layout.plain, plan=plan)


def wishes_of(choice: EngineChoice, broken: bool = False) -> Wishes:
    """What the planner is asked for."""
    live = choice.purpose == "talk"
    return Wishes(choice.precision, choice.kv_cache, choice.slots, choice.plain, live=live, broken=broken)


def _on_cpu(choice: EngineChoice, name: str, config: CheckpointConfig, usual: str) -> Setting:
    """Raises InvalidInput where the host's memory cannot hold it: the kernel would end the process without a word."""
    precision, slots = usual if choice.precision == AUTO else choice.precision, choice.slots or 1
    if name not in PACKAGED:
        check_cpu_room(sizes_of(name, config), precision, slots, available_bytes())
    return replace(_unplanned(choice, usual, fast=False), less=less_on_cpu(precision, slots, name in PACKAGED))


def sizes_of(name: str, config: CheckpointConfig) -> ModelSizes:
    """A model in numbers; random weights never go by the released model's name."""
    sizes = model_sizes(config)
    if not (name == RANDOM or config.random):
        return sizes
    return replace(sizes, name=RANDOM_NAME if sizes.name == RELEASED else f"{sizes.name}, all random")


def _plan(choice: EngineChoice, name: str, config: CheckpointConfig, device: torch.device, broken: bool) -> Plan | None:
    """The plan; None where a bench shall find out by itself what does not fit."""
    try:
        card = read_card(device, choice.gpu_memory_bytes)
        return make_plan(card, sizes_of(name, config), wishes_of(choice, broken))
    except InvalidInput:
        if choice.purpose == "bench":
            return None
        raise


def _unplanned(choice: EngineChoice, usual: str, fast: bool) -> Setting:
    dtype, quantization = _numbers(usual if choice.precision == AUTO else choice.precision)
    cache = torch.int8 if choice.kv_cache == "int8" else None
    return Setting(choice.slots or 1, dtype, quantization, cache, fast)


def _offloaded(choice: EngineChoice, name: str, config: CheckpointConfig, device: torch.device) -> Setting:
    precision = "bfloat16" if choice.precision == AUTO else choice.precision
    slots = choice.slots or 1
    budget = offload_budget(read_card(device, choice.gpu_memory_bytes), sizes_of(name, config), precision, slots)
    return Setting(slots, DTYPES[precision], budget_bytes=budget)


def _numbers(precision: str) -> tuple[torch.dtype, Quantization]:
    """Element type of what is not quantized, and the quantization."""
    return (torch.bfloat16, QUANTIZED[precision]) if precision in QUANTIZED else (DTYPES[precision], "none")
