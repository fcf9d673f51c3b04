"""Whether the released files fit the disk, before the first byte of them is fetched.

In: files as the Hub describes them. Out: lines that say what is ahead, or InvalidInput with numbers.
Must not know: how they are fetched.
"""

from __future__ import annotations

from personaplex_app.errors import InvalidInput
from personaplex_app.model.byte_progress import Report, size_words
from personaplex_app.model.disk import free_bytes
from personaplex_app.model.hub_files import (
    FILES,
    RELEASED_BYTES,
    REPOSITORY,
    HubFile,
    blobs_folder,
    cache_folder,
    cached_file,
)

ADVISED_BYTES = 50_000_000_000
SPARE_SHARE = 50  # a fiftieth more: for the file system, and for what else writes meanwhile


def check_space(files: list[HubFile], report: Report) -> None:
    """Raises InvalidInput where what is still missing does not fit; else says how much that is."""
    total, here = sum(file.size_bytes for file in files), sum(file.bytes_here() for file in files)
    if here == total:
        return
    folder, free, needed = cache_folder(), free_bytes(cache_folder()), total - here
    all_of_it = f"{size_words(total)} in all" + (f", {size_words(here)} of it here" if here else "")
    lacking = with_spare(needed) - free
    if lacking > 0:
        raise InvalidInput(
            f"The disk is too small: {size_words(needed)} are still to be fetched ({all_of_it}), and in {folder} "
            f"{size_words(free)} are free. Free {size_words(lacking)}, or set HF_HOME to a folder "
            f"on a larger disk; {size_words(ADVISED_BYTES)} are advised."
        )
    report(f"Fetching {len(files)} files from {REPOSITORY}: {all_of_it}")
    if free + here < ADVISED_BYTES:
        report(f"{size_words(free)} are free in {folder}; that is enough, {size_words(ADVISED_BYTES)} are advised")


def missing_bytes(revision: str) -> int:
    """About how much of a revision is still to be fetched, by what lies here: the Hub is not asked for sizes."""
    paths = [path for path in (cached_file(name, revision) for name in FILES) if path is not None]
    try:
        paths += blobs_folder().glob("*.incomplete")
        here = sum(path.stat().st_size for path in paths)
    except OSError:
        here = 0
    return max(0, RELEASED_BYTES - here)


def with_spare(needed_bytes: int) -> int:
    """How much must be free for it."""
    return needed_bytes + needed_bytes // SPARE_SHARE


def shortage_words(revision: str) -> str:
    """What is to be said of the disk while the Hub cannot be asked for sizes; empty where all would fit."""
    free = free_bytes(cache_folder())
    if free >= with_spare(missing_bytes(revision)):
        return ""
    needed = f"All files take {size_words(RELEASED_BYTES)}, and {size_words(free)} are free in {cache_folder()}"
    return f" {needed}: set HF_HOME to a folder on a larger disk; {size_words(ADVISED_BYTES)} are advised."
