"""A stand-in for the released checkpoint: random weights in exactly the Hub repository's layout.

In: a size, a seed, a directory. Out: the five files, written block by block: host memory does not grow with them.
It proves loading, memory and speed, and says nothing of quality. The same seed gives the same bytes.
Must not know: how the files are loaded.

All is written in a folder inside the directory and gets its names when it is whole, the weights last.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from personaplex_app.errors import InvalidInput
from personaplex_app.model.byte_progress import ByteProgress, Report, size_words
from personaplex_app.model.checkpoint import CODEC_FILE, CONFIG_FILE, TOKENIZER_FILE, VOICES_ARCHIVE, WEIGHTS_FILE
from personaplex_app.model.config import CheckpointConfig, read_config
from personaplex_app.model.disk import free_bytes
from personaplex_app.model.random_checkpoint import PIECES, tokenizer_bytes
from personaplex_app.model.safetensors_writer import TensorSlot, file_size_bytes, write_tensors
from personaplex_app.model.stand_in_numbers import (
    codec_slots,
    codec_spread,
    language_slots,
    language_spread,
    number_blocks,
    number_pool,
)
from personaplex_app.model.stand_in_voices import archive_size_bytes, write_voices

UNFINISHED = ".unfinished"
FILES = (CONFIG_FILE, TOKENIZER_FILE, VOICES_ARCHIVE, CODEC_FILE, WEIGHTS_FILE)  # in the order they get their names
SMALL_FILES_BYTES = 2 * 10**6  # tokenizer and configuration, rounded up
LARGE_BYTES = 10**9
_MINI_CONFIG = Path(__file__).parents[1] / "checkpoints" / "mini" / CONFIG_FILE
_NOTE = "random weights for loading, memory and speed; not PersonaPlex"


@dataclass(frozen=True)
class StandIn:
    """What to make.

    Attributes:
        text: the content of `config.json`. config: what a checkpoint's reader makes of it.
    """

    text: dict[str, Any]
    config: CheckpointConfig

    @property
    def size_bytes(self) -> int:
        """How much disk it takes, rounded up."""
        tensors = file_size_bytes(language_slots(self.config.language)) + file_size_bytes(codec_slots(self.config))
        return tensors + archive_size_bytes(self.config) + SMALL_FILES_BYTES


def full_stand_in() -> StandIn:
    """The released sizes: 8.37 B parameters, 17 GB; the configuration is as tiny as the released one."""
    return StandIn({"model_type": "personaplex", "note": _NOTE, "random": True}, CheckpointConfig(random=True))


def mini_stand_in() -> StandIn:
    """The test miniature's sizes, but a vocabulary of 32,000 pieces."""
    text = json.loads(_MINI_CONFIG.read_text(encoding="utf-8"))
    text["lm_config"]["text_card"] = PIECES
    config = read_config(_MINI_CONFIG)
    config = replace(config, language=replace(config.language, text_card=PIECES))
    return StandIn({"model_type": "personaplex", "note": _NOTE, **text}, config)


def make_checkpoint(directory: Path, stand_in: StandIn, seed: int, cache: Path, report: Report) -> int:
    """Makes the five files and returns their size in bytes.

    Raises InvalidInput before the first byte where the directory holds something or the disk is too small, and with
    nothing left behind where writing fails.
    """
    try:
        _check_empty(directory)
        _check_space(directory, stand_in.size_bytes)
        with _unfinished(directory) as folder:
            _write(folder, stand_in, seed, cache, report)
            for name in FILES:
                (folder / name).replace(directory / name)
        return sum((directory / name).stat().st_size for name in FILES)
    except OSError as error:
        raise InvalidInput(_disk_sentence(error, directory)) from None


def _check_empty(directory: Path) -> None:
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InvalidInput(f"{directory} is a file; name a new directory.")
    held = sorted(path.name for path in directory.iterdir())
    if UNFINISHED in held and _is_locked(directory / UNFINISHED):
        raise InvalidInput(_another(directory))
    if UNFINISHED in held:
        raise InvalidInput(
            f"{directory} holds the rest of an interrupted make-checkpoint. If none is writing there now, delete the "
            f"directory and start again: rm -r {shlex.quote(str(directory))}"
        )
    if held:
        raise InvalidInput(f"{directory} holds something already ({held[0]}); name a new directory or delete this one.")


def _another(directory: Path) -> str:
    return f"Another make-checkpoint is writing in {directory} now; wait until it is done, or name a new directory."


def _is_locked(folder: Path) -> bool:
    with _opened(folder) as number:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    number = os.open(folder, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


def _check_space(directory: Path, needed_bytes: int) -> None:
    free = free_bytes(directory)
    if free >= needed_bytes:
        return
    smaller = ", or take --size mini" if needed_bytes > LARGE_BYTES else ""
    raise InvalidInput(
        f"The checkpoint takes {size_words(needed_bytes)}; where {directory} lies, {size_words(free)} are free. "
        f"Free {size_words(needed_bytes - free)} or name a directory on a larger disk{smaller}."
    )


@contextlib.contextmanager
def _unfinished(directory: Path) -> Iterator[Path]:
    """A folder to write in; whatever ends the work early, an interruption included, leaves nothing behind."""
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    folder = directory / UNFINISHED
    directory.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        raise InvalidInput(_another(directory)) from None
    try:
        with _opened(folder) as number:
            with contextlib.suppress(OSError):  # some network disks know no locks
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
    except BaseException:
        for name in FILES:
            (directory / name).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise
    folder.rmdir()


def _write(folder: Path, stand_in: StandIn, seed: int, cache: Path, report: Report) -> None:
    config = stand_in.config
    (folder / CONFIG_FILE).write_text(json.dumps(stand_in.text, indent=1) + "\n", encoding="utf-8")
    report(f"Making {TOKENIZER_FILE}")
    (folder / TOKENIZER_FILE).write_bytes(tokenizer_bytes(cache))
    codec, language = codec_slots(config), language_slots(config.language)
    progress = ByteProgress("Writing", sum(slot.size_bytes for slot in codec + language), report)

    with number_pool() as pool:

        def codec_blocks(slot: TensorSlot) -> Iterator[memoryview]:
            return number_blocks(slot, codec_spread(slot), seed, pool)

        def language_blocks(slot: TensorSlot) -> Iterator[memoryview]:
            return number_blocks(slot, language_spread(slot), seed, pool)

        report(f"Writing {CODEC_FILE}, {size_words(file_size_bytes(codec))}")
        write_tensors(folder / CODEC_FILE, codec, codec_blocks, progress.add)
        report(f"Writing {WEIGHTS_FILE}, {size_words(file_size_bytes(language))}")
        write_tensors(folder / WEIGHTS_FILE, language, language_blocks, progress.add)
    report(f"Writing {VOICES_ARCHIVE}")
    write_voices(folder / VOICES_ARCHIVE, folder / WEIGHTS_FILE, config, seed)


def _disk_sentence(error: OSError, directory: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk of {directory} is full; what was written there is deleted again. Free some space first."
    return f"{directory} cannot be written: {error.strerror or error}."
