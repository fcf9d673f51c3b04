"""Reads a clip that a stranger sent: in a process of its own, so that what breaks a decoder breaks nothing else.

In: the file's bytes. Out: a `Clip`, or a sentence that says what is wrong with it. Nothing is written to a disk.
Must not know: containers and codecs (`clip_decoder.py`), voices, the web.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from personaplex_app.errors import InvalidInput, ServerFault
from personaplex_app.voice_clip import Clip

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "personaplex_app.clip_decoder")
ROOT = Path(__file__).parents[1]
MOST_SECONDS = 15.0  # the clock's, on a machine that is busy with talks
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "OPENBLAS_CORETYPE")  # of the environment; no secret of ours
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
UNREADABLE = "This file cannot be read as sound; record it anew, or save it as wav."
TOO_SLOW = "The clip took too long to read; send a shorter one, or try again in a minute."


def read_clip(data: bytes, timeout_seconds: float = MOST_SECONDS) -> Clip:
    """The sound of a file; blocks, so call it in a thread.

    Raises InvalidInput for what cannot be used, ServerFault where no process can be started.
    """
    try:
        run = subprocess.run(
            COMMAND, input=data, capture_output=True, timeout=timeout_seconds, cwd=ROOT, env=_environment()
        )
    except subprocess.TimeoutExpired:
        raise InvalidInput(TOO_SLOW, code="clip_slow") from None
    except OSError as error:
        log.error("the process that reads clips could not be started: %s", error)
        raise ServerFault("The server cannot read clips now; tell the operator.") from None
    facts, sound = _reply(run)
    if "refused" in facts:
        raise InvalidInput(str(facts["refused"]), code=str(facts["code"]))
    return Clip(np.frombuffer(sound, dtype=np.float32), int(facts["rate_hz"]), bool(facts["damaged"]))


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | ONE_THREAD


def _reply(run: subprocess.CompletedProcess[bytes]) -> tuple[dict[str, Any], memoryview]:
    """The first line's facts and the sound behind it; a process that ended otherwise has met a broken file."""
    line, _, _ = run.stdout.partition(b"\n")
    if run.returncode or not line:
        log.warning("reading a clip ended with %s: %s", run.returncode, run.stderr[-500:].decode(errors="replace"))
        raise InvalidInput(UNREADABLE, code="clip_unreadable")
    facts: dict[str, Any] = json.loads(line)
    return facts, memoryview(run.stdout)[len(line) + 1 :]
