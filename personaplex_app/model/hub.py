"""The released checkpoint from the Hugging Face Hub: five files of one revision, fetched once, checked once.

In: a token, a revision. Out: a directory in the layout of `checkpoint.py`; InvalidInput with the link or command that
mends what is wrong. The first download pins the commit it got; later starts ask for exactly that one, and nobody at
all where it is complete.
Must not know: devices, the web.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from huggingface_hub import constants

from personaplex_app.errors import InvalidInput
from personaplex_app.model.byte_progress import Report
from personaplex_app.model.hub_check import check_files
from personaplex_app.model.hub_download import fetch_file
from personaplex_app.model.hub_errors import (
    LICENCE_PAGE,
    NO_HOME,
    NO_TOKEN,
    TOKEN_PAGE,
    hub_sentence,
    is_broken_line,
    is_unreachable,
    offline_sentence,
)
from personaplex_app.model.hub_files import (
    DEFAULT_REVISION,
    FILES,
    RELEASED_BYTES,
    REPOSITORY,
    HubFile,
    ask_hub,
    cached_file,
    complete_commits,
    has_home,
    is_commit,
    missing_files,
    remember_name,
)
from personaplex_app.model.hub_space import ADVISED_BYTES, check_space, shortage_words

__all__ = [
    "ADVISED_BYTES",
    "DEFAULT_REVISION",
    "FILES",
    "LICENCE_PAGE",
    "PIN_FILE",
    "RELEASED_BYTES",
    "REPOSITORY",
    "TOKEN_PAGE",
    "fetch_checkpoint",
    "read_pin",
    "write_pin",
]

PIN_FILE = "personaplex-revision.txt"
UNSET_REVISION = "unset PERSONAPLEX_REVISION or name one that exists"


def fetch_checkpoint(token: str | None, revision: str | None, cache: Path, report: Report = lambda line: None) -> Path:
    """Fetches what is missing and checks what was not checked; returns the snapshot's directory.

    Args:
        revision: a commit, a branch or a tag; None for the pinned commit, else the newest.
        cache: where the pin and the record of checks lie; the files lie in the Hub's own cache.
        report: gets a line now and then, from this thread or another.
    Raises InvalidInput: no token, licence not accepted, wrong revision, no connection with an incomplete cache, a disk
    too small, a damaged file.
    """
    pinned = read_pin(cache)
    wanted = revision or pinned or DEFAULT_REVISION
    here = _complete(revision or pinned)
    can_ask = bool(token) and not constants.HF_HUB_OFFLINE
    if here is not None and (is_commit(wanted) or not can_ask):
        return _ready(here, [], cache, report)
    if not has_home():
        raise InvalidInput(NO_HOME)
    missing = missing_files(wanted)
    if not token or not can_ask:
        raise InvalidInput(_cannot_ask(token, missing))
    mend = UNSET_REVISION if revision or not pinned else f"delete {cache / PIN_FILE}, then the newest is taken"
    try:
        files = ask_hub(token, wanted)
    except (OSError, ValueError) as error:
        if here is None or not is_unreachable(error):
            raise InvalidInput(_refusal(error, wanted, mend, missing, token)) from None
        report("The Hub cannot be reached; the files that are here are used")
        return _ready(here, [], cache, report)
    check_space(files, report)
    try:
        _download(files, token, report)
        remember_name(wanted, files[0].commit)
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidInput(hub_sentence(error, wanted, mend, token)) from None
    return _ready(files[0].commit, files, cache, report)


def _cannot_ask(token: str | None, missing: list[str]) -> str:
    """Why nobody is asked: whoever has nothing yet needs a token first, whoever has a part of it a connection."""
    if constants.HF_HUB_OFFLINE and (token or len(missing) < len(FILES)):
        return offline_sentence(missing)
    return NO_TOKEN


def _complete(wanted: str | None) -> str | None:
    """A revision that lies complete in the cache: the one wanted, else the newest, else the one fetched last."""
    candidates = [wanted] if wanted else [DEFAULT_REVISION, *complete_commits()]
    return next((revision for revision in candidates if not missing_files(revision)), None)


def _refusal(error: Exception, wanted: str, mend: str, missing: list[str], token: str) -> str:
    """Why the Hub cannot be asked for what is missing."""
    if not is_broken_line(error):
        return hub_sentence(error, wanted, mend, token)
    return offline_sentence(missing) + (shortage_words(wanted) if len(missing) == len(FILES) else "")


def _download(files: list[HubFile], token: str, report: Report) -> None:
    for index, file in enumerate(files, start=1):
        if cached_file(file.name, file.commit) is not None:
            continue
        what = f"Fetching {file.name} ({index} of {len(files)})"
        report(f"{what} from {REPOSITORY} ...")
        fetch_file(file, token, what, report)


def _ready(revision: str, files: list[HubFile], cache: Path, report: Report) -> Path:
    """The folder of a complete revision, its files checked, its commit pinned."""
    path = cached_file(FILES[0], revision)
    if path is None:
        raise InvalidInput(offline_sentence(missing_files(revision)))
    try:
        check_files(path.parent, files, cache, report)
    except OSError as error:
        raise InvalidInput(f"{error.filename or path.parent} cannot be read: {error.strerror or error}.") from None
    write_pin(cache, path.parent.name)  # a snapshot lies under its commit, whatever it was asked for by
    return path.parent


def read_pin(cache: Path) -> str | None:
    """The commit of the first download, if there was one."""
    try:
        pin = (cache / PIN_FILE).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return pin if is_commit(pin) else None


def write_pin(cache: Path, commit: str) -> None:
    """Remembers the commit; a cache that cannot be written costs a question to the Hub at the next start."""
    if read_pin(cache) == commit:
        return
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        (cache / PIN_FILE).write_text(commit + "\n", encoding="utf-8")
