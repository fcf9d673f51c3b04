"""The released checkpoint from the Hugging Face Hub: five files of one revision, fetched once.

In: a token, a revision. Out: a directory in the layout of `checkpoint.py`; InvalidInput with the link or command that
mends what is wrong. The first download pins the commit it got; later starts ask for exactly that one.
Must not know: devices, the web.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import CODEC_FILE, CONFIG_FILE, TOKENIZER_FILE, VOICES_ARCHIVE, WEIGHTS_FILE

REPOSITORY = "nvidia/personaplex-7b-v1"
FILES = (CONFIG_FILE, TOKENIZER_FILE, VOICES_ARCHIVE, CODEC_FILE, WEIGHTS_FILE)
DEFAULT_REVISION = "main"
LICENCE_PAGE = f"https://huggingface.co/{REPOSITORY}"
TOKEN_PAGE = "https://huggingface.co/settings/tokens"
PIN_FILE = "personaplex-revision.txt"

Report = Callable[[str], None]


def fetch_checkpoint(token: str | None, revision: str | None, cache: Path, report: Report = lambda line: None) -> Path:
    """Downloads what is missing, a line of progress a file; returns the snapshot's directory.

    Raises InvalidInput: no token, licence not accepted, wrong revision, no connection with an incomplete cache.
    """
    if not token:
        raise InvalidInput(
            f"The PersonaPlex weights need a Hugging Face token: accept the licence on {LICENCE_PAGE}, make a token on "
            f"{TOKEN_PAGE}, then start with HF_TOKEN=hf_... in the environment."
        )
    pinned = revision or read_pin(cache)
    try:
        commit = pinned or HfApi(token=token).model_info(REPOSITORY, revision=DEFAULT_REVISION).sha or DEFAULT_REVISION
        folder = _download(commit, token, report)
    except (HfHubHTTPError, OfflineModeIsEnabled, LocalEntryNotFoundError, OSError) as error:
        raise InvalidInput(_sentence(error, pinned or DEFAULT_REVISION)) from None
    write_pin(cache, folder.name)  # a snapshot lies under its commit, whatever it was asked for by
    return folder


def _download(commit: str, token: str, report: Report) -> Path:
    path = Path()
    for index, name in enumerate(FILES, start=1):
        report(f"Fetching {name} ({index} of {len(FILES)}) from {REPOSITORY} ...")
        path = Path(hf_hub_download(REPOSITORY, name, revision=commit, token=token))
    return path.parent


def read_pin(cache: Path) -> str | None:
    """The commit of the first download, if there was one."""
    try:
        return (cache / PIN_FILE).read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def write_pin(cache: Path, commit: str) -> None:
    """Remembers the commit; a cache that cannot be written costs a question to the Hub at the next start."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        (cache / PIN_FILE).write_text(commit + "\n", encoding="utf-8")
    except OSError:
        return


def _sentence(error: Exception, revision: str) -> str:
    """What went wrong with the Hub, and what mends it."""
    cause = error.__cause__
    if isinstance(error, LocalEntryNotFoundError) and isinstance(cause, OSError) and hasattr(cause, "response"):
        error = cause if cause.response is not None else error  # the Hub did answer; the cache was asked after that
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, RevisionNotFoundError):
        return f"{REPOSITORY} has no revision {revision}; unset PERSONAPLEX_REVISION or name one that exists."
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return f"{REPOSITORY} at {revision} lacks a file that is needed: {' '.join(str(error).split())[:200]}"
    if status == 401:
        return f"The Hugging Face token is not valid (401). Make a new one on {TOKEN_PAGE} and set HF_TOKEN."
    if isinstance(error, GatedRepoError) or status == 403:
        return f"This token may not read the weights yet (403): accept the licence on {LICENCE_PAGE} with its account."
    if isinstance(error, RepositoryNotFoundError):
        return f"The Hub does not show {REPOSITORY} to this token. Check the token on {TOKEN_PAGE}."
    if isinstance(error, OfflineModeIsEnabled | LocalEntryNotFoundError):
        return (
            "The Hub cannot be reached and the cache is not complete. Start once with a connection, then offline works."
        )
    return f"The Hub did not give the files: {' '.join(str(error).split())[:300]}"
