"""One file from the Hub: fetched, watched while it grows, gone on with where the line broke.

In: a file, a token. Out: its path in the cache; lines of progress. Must not know: which files are needed, sentences.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huggingface_hub import constants, hf_hub_download
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from personaplex_app.model.byte_progress import ByteProgress, Report, size_words
from personaplex_app.model.hub_errors import is_broken_line
from personaplex_app.model.hub_files import REPOSITORY, HubFile

LOOK_SECONDS = 0.5
PAUSES_SECONDS = (1.0, 2.0, 5.0, 10.0, 20.0)  # between tries that bring nothing
CHUNK_BYTES = 2**20  # what a broken line loses at most

# Xet and hf_transfer are faster, but begin at zero after a break; plain HTTP goes on where the file ends.
_STEADY = {"HF_HUB_DISABLE_XET": True, "HF_HUB_ENABLE_HF_TRANSFER": False, "DOWNLOAD_CHUNK_SIZE": CHUNK_BYTES}


def fetch_file(file: HubFile, token: str, what: str, report: Report) -> Path:
    """Fetches what is missing of a file; tries on as long as tries bring something, and five times beyond that.

    Args:
        what: how a line of progress begins.
    Raises whatever `huggingface_hub` and the disk raise at last.
    """
    if file.partial.exists() and file.partial.stat().st_size > file.size_bytes:
        file.partial.unlink()  # no part of this file: going on at its end would be refused for ever
    pauses = iter(PAUSES_SECONDS)
    while True:
        before = file.bytes_here()
        try:
            with _steady(), _watched(file, what, report):
                return Path(hf_hub_download(REPOSITORY, file.name, revision=file.commit, token=token))
        except Exception as error:
            here = file.bytes_here()
            pauses = iter(PAUSES_SECONDS) if here > before else pauses
            pause = next(pauses, None) if is_broken_line(error) else None
            if pause is None:
                raise
            done = f"{size_words(here)} of {size_words(file.size_bytes)}"
            report(f"The connection broke at {done} of {file.name}; going on in {pause:.0f} s")
            time.sleep(pause)


@contextlib.contextmanager
def _watched(file: HubFile, what: str, report: Report) -> Iterator[None]:
    """Tells how the file grows, from a thread of its own: the library tells nobody but its own bar."""
    progress = ByteProgress(what, file.size_bytes, report, file.bytes_here())
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            progress.reach(file.bytes_here())

    thread = threading.Thread(target=look, name="hub-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def _steady() -> Iterator[None]:
    """The library fetches by plain HTTP in small pieces and draws no bar; afterwards it is as it was."""
    settings: Any = constants
    before = {name: getattr(settings, name) for name in _STEADY}
    bars = not are_progress_bars_disabled() and constants.HF_HUB_DISABLE_PROGRESS_BARS is None
    if bars:
        disable_progress_bars()
    for name, value in _STEADY.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)
        if bars:
            enable_progress_bars()
