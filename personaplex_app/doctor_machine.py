"""What the doctor sees: torch and its GPU, compiler, packages, disk.

In: nothing, or names. Out: plain facts for `doctor_checks`. Nothing here fails: what cannot be seen is None.
Must not know: what is wrong with it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
import sysconfig
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from personaplex_app.doctor_checks import Gpu

PACKAGES = (
    "torch",
    "moshi",
    "safetensors",
    "sentencepiece",
    "huggingface_hub",
    "gradio",
    "fastrtc",
    "aiortc",
    "torchao",
)
DRIVER = Path("/proc/driver/nvidia/version")
COMPILERS = ("gcc", "clang")  # in the order in which Triton looks, after what CC names


def missing_packages() -> list[str]:
    """Which of the packages are not installed."""
    return [name for name in PACKAGES if not _is_there(name)]


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return importlib.util.find_spec(name) is not None


def see_gpu(driver_file: Path = DRIVER) -> Gpu:
    """torch, its build, and the first GPU with its memory."""
    driver = driver_version(driver_file)
    try:
        importlib.import_module("personaplex_app.model")  # sets what torch reads when it is imported
        torch: Any = importlib.import_module("torch")
    except Exception as error:
        return Gpu(driver=driver, error=_first_line(error))
    return see_torch(torch, driver)


def see_torch(torch: Any, driver: str | None) -> Gpu:
    """What a torch that was imported says."""
    version, built_for = str(torch.__version__), torch.version.cuda
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same is said below, once
        try:
            if not torch.cuda.is_available():
                return Gpu(version, built_for, driver=driver, error=_why_not(torch))
            properties = torch.cuda.get_device_properties(0)
            free, total = torch.cuda.mem_get_info(0)
            archs = tuple(torch.cuda.get_arch_list())
        except Exception as error:
            return Gpu(version, built_for, driver=driver, error=_first_line(error))
    capability = (int(properties.major), int(properties.minor))
    return Gpu(version, built_for, archs, driver, "", str(properties.name), capability, total, free)


def _why_not(torch: Any) -> str:
    try:
        torch.cuda.init()
    except Exception as error:
        return _first_line(error)
    return ""


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split(".")[0].split())[:200] or type(error).__name__


def driver_version(file: Path = DRIVER) -> str | None:
    """`570.86.15`, as the kernel's module says it; None where there is none."""
    try:
        words = file.read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return None
    numbers = (word for word in words if word[:1].isdigit() and word.count(".") in (1, 2))
    return next(numbers, "of unknown version")


def find_compiler(variables: Mapping[str, str]) -> str | None:
    """The C compiler that Triton would take."""
    for name in (variables.get("CC", ""), *COMPILERS):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def find_header() -> str | None:
    """Python.h of this interpreter."""
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return str(header) if header.is_file() else None


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder that need not exist yet."""
    from personaplex_app.model.disk import nearest_place

    there = nearest_place(folder)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
