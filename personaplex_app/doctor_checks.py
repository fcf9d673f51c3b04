"""What the doctor makes of what it sees: a finding for each thing, and for each that is wrong the line that mends it.

In: plain facts. Out: `Finding`s. Must not know: torch, the network, how facts are come by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from personaplex_app.cards import GIB

OK, NOTE, WRONG = "ok", "note", "wrong"
INSTALL = ".venv/bin/python -m pip install -r requirements.txt -c requirements.lock"
LEAST_DRIVERS = {"11": "450", "12": "525", "13": "580"}  # NVIDIA's release notes: CUDA's major version, driver
NEEDED_HOST_BYTES = 4 * GIB
GB = 10**9


@dataclass(frozen=True)
class Finding:
    """state: `ok`, `note` (works, but know this) or `wrong`. mend: one line, where it is wrong."""

    name: str
    state: str
    sentence: str
    mend: str = ""


@dataclass(frozen=True)
class Gpu:
    """What torch and the system say of the GPU.

    Attributes:
        torch: torch's version, None where it cannot be imported. built_for: the CUDA version it was built for, if any.
        archs: what its kernels were built for, `sm_90`. driver: the driver's version, None where there is no driver.
        error: what CUDA said when it would not start. name and below: of the first GPU, where there is one.
    """

    torch: str | None = None
    built_for: str | None = None
    archs: tuple[str, ...] = ()
    driver: str | None = None
    error: str = ""
    name: str | None = None
    capability: tuple[int, int] = (0, 0)
    total_bytes: int = 0
    free_bytes: int = 0


def packages(missing: Sequence[str]) -> Finding:
    """The packages that serving needs."""
    if missing:
        return Finding("packages", WRONG, f"Not installed: {', '.join(missing)}.", INSTALL)
    return Finding("packages", OK, "All that serving needs is installed.")


def python(version: tuple[int, int]) -> Finding:
    """The interpreter's version."""
    said = f"Python {version[0]}.{version[1]}"
    if (3, 11) <= version <= (3, 12):
        return Finding("python", OK, f"{said}.")
    return Finding(
        "python", WRONG, f"{said}; 3.11 or 3.12 is needed.", "apt-get install python3.11 python3.11-venv; rm -r .venv"
    )


def gpu(seen: Gpu, needed: bool, asked: bool = False) -> list[Finding]:
    """Driver, card and torch's build for it.

    Args:
        needed: whether what was chosen cannot talk without one. asked: whether `--device cuda` asks for one.
    """
    if seen.torch is None:
        return [Finding("torch", WRONG, f"torch cannot be imported: {seen.error or 'it is not installed'}.", INSTALL)]
    build = f"torch {seen.torch}, built for {f'CUDA {seen.built_for}' if seen.built_for else 'the CPU only'}"
    if seen.name is None:
        return [Finding("torch", OK, f"{build}."), _no_gpu(seen, needed, asked)]
    number = f"{seen.capability[0]}.{seen.capability[1]}"
    return [
        Finding("gpu", OK, f"{seen.name}, compute capability {number}, driver {seen.driver or 'unknown'}."),
        _arch(seen, build),
        _gpu_memory(seen),
    ]


def _no_gpu(seen: Gpu, needed: bool, asked: bool) -> Finding:
    if seen.driver and not seen.built_for:
        said = f"There is a driver ({seen.driver}), but this torch is built for the CPU only."
        return Finding("gpu", WRONG, said, INSTALL)
    if seen.driver:
        said = f"There is a driver ({seen.driver}), but CUDA does not start: {seen.error or 'no reason given'}."
        return Finding("gpu", WRONG, said, _mend_driver(seen))
    said = "No NVIDIA GPU is to be seen (in a container: start it with --gpus all)."
    if needed:
        mend = "Run it where an NVIDIA GPU with 24 GB is, or take --checkpoint demo."
        return Finding("gpu", WRONG, f"{said} PersonaPlex cannot talk on a CPU.", mend)
    if asked:
        return Finding("gpu", WRONG, f"{said} --device cuda asks for one.", "Leave --device cuda out.")
    return Finding("gpu", NOTE, f"{said} The trained miniature, a toy, answers on the CPU.")


def _mend_driver(seen: Gpu) -> str:
    if "too old" in seen.error:
        least = LEAST_DRIVERS.get((seen.built_for or "").split(".")[0], "a newer one")
        return f"Install NVIDIA's driver {least} or newer, then restart the machine."
    return "See that nvidia-smi lists the GPU; start a container with --gpus all; unset CUDA_VISIBLE_DEVICES."


def _arch(seen: Gpu, build: str) -> Finding:
    """Kernels run on cards of the same major number and the same or a later minor; `compute` ones on all later."""
    wanted = f"sm_{seen.capability[0]}{seen.capability[1]}"
    if any(_runs_on(arch, seen.capability) for arch in seen.archs):
        return Finding("torch", OK, f"{build}, runs on {wanted}.")
    said = f"{build}, has kernels for {', '.join(seen.archs) or 'nothing'}, and this GPU is {wanted}."
    known = [_capability(arch) for arch in seen.archs]
    if known and seen.capability < min(known):
        return Finding("torch", WRONG, said, "This GPU is older than this torch supports: take a newer GPU.")
    return Finding("torch", WRONG, said, INSTALL)


def _capability(arch: str) -> tuple[int, int]:
    digits = "".join(letter for letter in arch.partition("_")[2] if letter.isdigit())
    return (int(digits[:-1]), int(digits[-1])) if len(digits) > 1 else (0, 0)


def _runs_on(arch: str, capability: tuple[int, int]) -> bool:
    built = _capability(arch)
    if arch.startswith("compute_"):
        return built <= capability
    if arch[-1:].isalpha():  # `sm_90a`: for exactly this one
        return built == capability
    return built[0] == capability[0] and built[1] <= capability[1]


def _gpu_memory(seen: Gpu) -> Finding:
    taken = seen.total_bytes - seen.free_bytes
    said = f"{seen.free_bytes / GIB:.1f} of {seen.total_bytes / GIB:.1f} GiB are free."
    if taken > 2 * GIB:
        return Finding("gpu memory", NOTE, f"{said} Other programs hold {taken / GIB:.1f} GiB (nvidia-smi lists them).")
    return Finding("gpu memory", OK, said)


def compiler(found: str | None, header: str | None, needed: bool) -> Finding:
    """What Triton compiles the kernels' launchers with."""
    missing = [name for name, place in (("a C compiler", found), ("Python's headers", header)) if place is None]
    if not missing:
        return Finding("compiler", OK, f"{found}, with Python's headers.")
    said = f"The compiled kernels need {' and '.join(missing)}."
    if not needed:
        return Finding("compiler", NOTE, f"{said} Nothing is compiled here.")
    return Finding("compiler", WRONG, said, "apt-get install -y gcc libc6-dev python3-dev")


def host_memory(available_bytes: int | None) -> Finding:
    """Loading streams, so little is needed."""
    if available_bytes is None:
        return Finding("host memory", NOTE, "The system does not tell how much memory is available.")
    said = f"{available_bytes / GIB:.1f} GiB are available."
    if available_bytes < NEEDED_HOST_BYTES:
        mend = "End other programs, or give the container or machine more memory."
        return Finding("host memory", WRONG, f"{said} The server wants {NEEDED_HOST_BYTES / GIB:.0f}.", mend)
    return Finding("host memory", OK, said)


def disk(folder: str, free_bytes: int, needed_bytes: int, advised_bytes: int, variable: str) -> Finding:
    """Room for what is still to be fetched or converted."""
    said = f"{free_bytes / GB:.0f} GB are free at {folder}."
    if free_bytes < needed_bytes:
        said = f"{said} The files still to be fetched take {needed_bytes / GB:.0f} GB."
        return Finding("disk", WRONG, said, f"Free the room, or set {variable} to a folder on a larger disk.")
    if free_bytes < advised_bytes:
        return Finding("disk", NOTE, f"{said} {advised_bytes / GB:.0f} GB are advised.")
    return Finding("disk", OK, said)


def cache(folder: str, writable: bool, variable: str, name: str = "cache") -> Finding:
    """Where converted voices and the pinned revision lie, or the Hub's files."""
    if writable:
        return Finding(name, OK, f"{folder} can be written.")
    return Finding(name, WRONG, f"{folder} cannot be written.", f"Set {variable} to a folder that can be written.")
