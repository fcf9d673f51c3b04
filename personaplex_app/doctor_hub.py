"""What the doctor finds of the released weights: token, licence, and how much of them is here already.

In: a token, a revision, a cache. Out: `Finding`s. One short question to the Hub; being offline is said, no error.
Must not know: GPUs, plans. The token itself is never said.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants, hf_hub_url
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RevisionNotFoundError
from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status  # type: ignore[attr-defined]

from personaplex_app.doctor_checks import NOTE, OK, WRONG, Finding
from personaplex_app.model.byte_progress import size_words
from personaplex_app.model.checkpoint import CONFIG_FILE
from personaplex_app.model.hub import LICENCE_PAGE, TOKEN_PAGE, read_pin
from personaplex_app.model.hub_errors import WRONG_ADDRESS, wrong_address
from personaplex_app.model.hub_files import (
    DEFAULT_REVISION,
    FILES,
    RELEASED_BYTES,
    REPOSITORY,
    cached_file,
    complete_commits,
    missing_files,
)

PATIENCE_SECONDS = 5.0
SET_TOKEN = "set HF_TOKEN=hf_... in the environment"


@dataclass(frozen=True)
class Files:
    """What of the released files is in the cache.

    Attributes:
        revision: what a start would ask for. folder: the snapshot, where all of it is here. missing: what is not.
    """

    revision: str
    folder: Path | None
    missing: tuple[str, ...]


def cached_files(revision: str | None, cache: Path) -> Files:
    """Looks into the Hub's cache for the revision that a start would take, as `model/hub.py` does."""
    named = revision or read_pin(cache)
    for one in [named] if named else [DEFAULT_REVISION, *complete_commits()]:
        path = cached_file(FILES[0], one)
        if path is not None and not missing_files(one):
            return Files(one, path.parent, ())
    wanted = named or DEFAULT_REVISION
    return Files(wanted, None, tuple(missing_files(wanted)))


def token(held: str | None, found: Files) -> Finding:
    """Whether the token opens the released files; asks the Hub where it can be asked."""
    if not held:
        if found.folder is not None:
            return Finding("token", NOTE, "No HF_TOKEN is set; none is needed, all files are here.")
        said = "No HF_TOKEN is set, and the released weights need one."
        mend = f"Accept the licence on {LICENCE_PAGE}, make a token on {TOKEN_PAGE}, {SET_TOKEN}."
        return Finding("token", WRONG, said, mend)
    if constants.HF_HUB_OFFLINE:
        return Finding("token", NOTE, "HF_TOKEN is set; HF_HUB_OFFLINE forbids asking the Hub about it.")
    url = hf_hub_url(REPOSITORY, CONFIG_FILE, revision=found.revision)
    try:
        headers = build_hf_headers(token=held)
        hf_raise_for_status(get_session().head(url, headers=headers, timeout=PATIENCE_SECONDS, allow_redirects=False))
    except HfHubHTTPError as error:
        return _refused(error, found.revision)
    except WRONG_ADDRESS:
        return Finding("token", WRONG, wrong_address(), "Unset HF_ENDPOINT.")
    except (OSError, ValueError) as error:
        said = f"HF_TOKEN is set; offline, the Hub cannot be asked about it ({type(error).__name__})."
        return Finding("token", NOTE, said)
    return Finding("token", OK, f"HF_TOKEN opens {REPOSITORY}; the licence is accepted.")


def _refused(error: HfHubHTTPError, revision: str) -> Finding:
    status = getattr(error.response, "status_code", None)
    if isinstance(error, RevisionNotFoundError):
        mend = "Unset PERSONAPLEX_REVISION, or name a commit that exists."
        return Finding("token", WRONG, f"{REPOSITORY} has no revision {revision}.", mend)
    if status == 401:
        said = "The token in HF_TOKEN is not valid (401)."
        return Finding("token", WRONG, said, f"Make a new one on {TOKEN_PAGE}, {SET_TOKEN}.")
    if isinstance(error, GatedRepoError) or status == 403:
        said = f"The token in HF_TOKEN may not read {REPOSITORY} yet (403)."
        return Finding("token", WRONG, said, f"Accept the licence on {LICENCE_PAGE} with the token's account.")
    if status == 404:
        said = f"The Hub does not show {REPOSITORY} to the token in HF_TOKEN (404)."
        return Finding("token", WRONG, said, f"Give the token the right to read gated repositories on {TOKEN_PAGE}.")
    return Finding("token", NOTE, f"HF_TOKEN is set; the Hub has no answer about it now ({status}).")


def files(found: Files, reachable: bool) -> Finding:
    """How complete the released files are."""
    if found.folder is not None:
        return Finding("files", OK, f"All {len(FILES)} files of {REPOSITORY} are here.")
    said = f"{len(FILES) - len(found.missing)} of {len(FILES)} files of {REPOSITORY} are here"
    if reachable:
        return Finding("files", NOTE, f"{said}; the first start fetches the rest, {size_words(RELEASED_BYTES)} in all.")
    mend = "Start once with a connection and a token, without HF_HUB_OFFLINE; after that offline works."
    return Finding("files", WRONG, f"{said}, and the Hub cannot be asked for the rest.", mend)
