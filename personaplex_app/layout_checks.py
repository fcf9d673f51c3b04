"""Flags that do nothing where the model would run are refused, and so is a model that the host's memory cannot hold.

In: a choice, where it would run; a model's sizes. Out: nothing, or InvalidInput in words that name only what was given.
Must not know: plans, how anything is loaded.
"""

from __future__ import annotations

from personaplex_app.cards import GIB
from personaplex_app.errors import InvalidInput
from personaplex_app.plan_costs import Layout, ModelSizes, memory_parts
from personaplex_app.settings import EngineChoice

QUANTIZED = ("int8", "int4")
SPARE_HOST_BYTES = GIB  # for the tensor that is being read, and for whatever else the process still needs
TAKEN_ON_CPU = ("weights", "pasts", "codec")


def kernel_flags(choice: EngineChoice) -> str:
    """The flags given that only the compiled kernels can follow; empty where there are none."""
    asked = [f"--precision {choice.precision}"] if choice.precision in QUANTIZED else []
    return " and ".join([*asked, *(["--kv-cache int8"] if choice.kv_cache == "int8" else [])])


def check_flags(choice: EngineChoice, *, cpu: bool, trained_miniature: bool, fits_anywhere: bool) -> None:
    """Raises InvalidInput for a flag that would do nothing, or that two others contradict.

    Args:
        cpu: it runs there. trained_miniature: the compiled kernels cannot run it. fits_anywhere: a miniature.
    """
    if cpu:
        _check_cpu(choice)
    elif choice.cpu_offload and fits_anywhere:
        raise InvalidInput("--cpu-offload is for models that a GPU cannot hold, and any holds this one: leave it out.")
    asked = kernel_flags(choice)
    needs = f"{asked} {'need' if ' and ' in asked else 'needs'} a CUDA GPU and the compiled kernels"
    against = [
        flag for flag, given in (("--plain-engine", choice.plain), ("--cpu-offload", choice.cpu_offload)) if given
    ]
    if not asked:
        return
    if cpu:
        other = ", or leave out --device cpu" if choice.device == "cpu" else ""
        raise InvalidInput(f"{needs}, and this runs on the CPU: leave {_it(asked)} out{other}.")
    if trained_miniature:
        raise InvalidInput(f"{needs}, and the trained miniature cannot run in these: leave {_it(asked)} out.")
    if against:
        raise InvalidInput(f"{needs}: leave {_it(asked)} out, or leave out {' and '.join(against)}.")


def _it(flags: str) -> str:
    return "them" if " and " in flags else "it"


def _check_cpu(choice: EngineChoice) -> None:
    if choice.gpu_memory_bytes is not None:
        raise InvalidInput("--gpu-memory-gb holds a GPU's memory, and this runs on the CPU: leave it out.")
    if choice.cpu_offload:
        raise InvalidInput("--cpu-offload helps a GPU, and this runs on the CPU: leave it out.")


def check_cpu_room(sizes: ModelSizes, precision: str, slots: int, available_bytes: int | None) -> None:
    """Raises InvalidInput where host memory cannot hold the model; None where the system does not tell."""
    parts = cpu_parts(sizes, precision, slots)
    if available_bytes is None or sum(parts.values()) <= available_bytes:
        return
    named = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items())
    tried = [
        (flags, kind, lines)
        for flags, kind, lines in (
            ("--slots 1", precision, 1),
            ("--precision bfloat16", "bfloat16", slots),
            ("--precision bfloat16 --slots 1", "bfloat16", 1),
        )
        if (kind, lines) != (precision, slots) and sum(cpu_parts(sizes, kind, lines).values()) <= available_bytes
    ]
    ways = [flags for flags, _, _ in tried[:1]] + ["--checkpoint demo"]
    lines = "1 line" if slots == 1 else f"{slots} lines"
    raise InvalidInput(
        f"{sizes.name} as {precision} with {lines} on the CPU needs {sum(parts.values()) / GIB:.1f} GiB of host memory "
        f"({named}), and {available_bytes / GIB:.1f} GiB are available. What works here: {', or '.join(ways)}.",
        code="does_not_fit",
    )


def cpu_parts(sizes: ModelSizes, precision: str, slots: int) -> dict[str, int]:
    """Bytes of host memory by what takes them where the model runs on the CPU."""
    parts = memory_parts(sizes, Layout(precision, "model", slots, plain=True))
    taken = {name: parts[name] for name in TAKEN_ON_CPU}
    return {**taken, "to spare": min(SPARE_HOST_BYTES, parts["weights"])}


def less_on_cpu(precision: str, slots: int, packaged: bool) -> str:
    """Flags that need less host memory than these."""
    ways = ["fewer --slots"] if slots > 1 else []
    ways += ["--precision bfloat16"] if precision == "float32" else []
    ways += [] if packaged else ["--checkpoint demo"]
    return " or ".join(ways) or "a machine with more memory"
