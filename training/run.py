"""`python -m training.run`: all steps in order, within the time of one call; the next call goes on where it ended.

In: the command line. Out: what the steps leave; with `--parts`, the package and the logs as files that travel.
Must not know: what a step does. Exit code 0: all is done; 3: time is up, call again; else a step failed.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

from training.places import Places, parser
from training.sizes import size
from training.speech.shelf import unpack

STEPS = ("world", "speech", "codec", "encode", "language", "decoder", "package")
LEAST_SECONDS = 15.0  # a step is not begun with less left
SLACK_SECONDS = 20.0  # what a step may need to write its state and end
PART_BYTES = 15 * 2**20
Process = subprocess.Popen[bytes]
AGAIN = 3


def is_done(step: str, places: Places) -> bool:
    """Whether a step has left its last file."""
    marks = {
        "world": places.tokenizer,
        "codec": places.codec,
        "language": places.language,
        "decoder": places.decoder,
        "package": places.package / "config.json",
    }
    return marks[step].exists() if step in marks else places.done(step).exists()


def run_step(step: str, arguments: list[str], seconds: float | None) -> int:
    """One step as a process of its own; returns its exit code."""
    command = [sys.executable, "-m", f"training.{step}", *arguments]
    if seconds is not None:
        command += ["--seconds", f"{seconds:.0f}"]
    return subprocess.run(command, check=False).returncode


def begin_beside(families: list[str], arguments: list[str], kokoro_voices: Path, seconds: float) -> Process:
    """More speech, said on the idle cores while the codec trains on the GPU; the codes are made of it afterwards."""
    command = [sys.executable, "-m", "training.speech", *arguments, "--families", *families]
    command += ["--kokoro-voices", str(kokoro_voices), "--seconds", f"{seconds:.0f}"]
    return subprocess.Popen(command)


def write_parts(places: Places, folder: Path) -> None:
    """Package and logs as one archive, cut into parts of 15 MiB; `cat package.tar.* | tar x` joins them."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "whole.tar"
    with tarfile.open(whole, "w") as tar:
        for path in (places.package, places.work / "log"):
            if path.exists():
                tar.add(path, path.name)
    data = whole.read_bytes()
    whole.unlink()
    for number, first in enumerate(range(0, len(data), PART_BYTES)):
        (folder / f"package.tar.{number}").write_bytes(data[first : first + PART_BYTES])


def run_one(step: str, chosen: argparse.Namespace, places: Places, left: float | None) -> int:
    """One step, and what goes on beside it; 3 where it has more to do."""
    arguments = ["--work", str(chosen.work), "--size", chosen.size, "--pace", f"{chosen.pace:g}"]
    beside = None
    if step == "codec" and chosen.beside:
        seconds = min(left or math.inf, size(chosen.size, chosen.pace).codec.seconds)
        beside = begin_beside(chosen.beside, arguments, chosen.kokoro_voices, seconds)
    own = ["--families", *chosen.families] if step == "speech" and chosen.families else []
    own += ["--begin-with", str(chosen.begin_with)] if step in ("codec", "language") and chosen.begin_with else []
    code = run_step(step, arguments + own, left)
    if beside is not None:
        code = beside.wait() or code
    return AGAIN if code == 0 and not is_done(step, places) else code


def run_all(chosen: argparse.Namespace, places: Places) -> int:
    """The steps that are not done, until one fails or the time is up."""
    began = time.time()
    for step in chosen.steps:
        if is_done(step, places):
            continue
        left = None if chosen.seconds is None else chosen.seconds - SLACK_SECONDS - (time.time() - began)
        if left is not None and left < LEAST_SECONDS:
            return AGAIN
        code = run_one(step, chosen, places, left)
        if code:
            return code
    return 0


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    options.add_argument("--parts", type=Path, default=None, help="where the package is to lie in parts")
    options.add_argument("--families", nargs="+", default=None, help="of voices, for the speech")
    options.add_argument("--beside", nargs="+", default=None, help="families to be said while the codec trains")
    options.add_argument("--kokoro-voices", type=Path, default=Path("kokoro-js/package/voices"))
    options.add_argument("--begin-with", type=Path, default=None, help="a checkpoint that is trained on")
    options.add_argument("--packs", type=Path, default=None, help="shelves of speech made elsewhere, FAMILY/NAME.*")
    chosen = options.parse_args(arguments)
    places = Places(chosen.work)
    if chosen.packs is not None and not places.speech.exists():
        shutil.copytree(chosen.packs, places.speech)
        unpack(places.speech, os.cpu_count() or 1)
    code = run_all(chosen, places)
    if chosen.parts is not None:
        write_parts(places, chosen.parts)
    sys.exit(code)


if __name__ == "__main__":
    main()
