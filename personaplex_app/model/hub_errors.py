"""What can go wrong with the Hub, each in one sentence with the link or the command that mends it.

In: an exception of `huggingface_hub`, `requests` or the disk. Out: a sentence.
Must not know: what was being done, beyond the revision and the file. No sentence holds a token.
"""

from __future__ import annotations

import errno
import re
from urllib.parse import quote

from huggingface_hub import constants
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from requests import exceptions as http

from personaplex_app.model.byte_progress import size_words
from personaplex_app.model.disk import free_bytes
from personaplex_app.model.hub_files import FILES, REPOSITORY, cache_folder

LICENCE_PAGE = f"https://huggingface.co/{REPOSITORY}"
TOKEN_PAGE = "https://huggingface.co/settings/tokens"
STATUS_PAGE = "https://status.huggingface.co"
NO_TOKEN = (
    f"The PersonaPlex weights need a Hugging Face token: accept the licence on {LICENCE_PAGE}, make a token on "
    f"{TOKEN_PAGE}, then start with HF_TOKEN=hf_... in the environment."
)

NO_HOME = (
    "The Hub's files have no place, for this user has no home folder: set HF_HOME to a folder that can be written."
)
WRONG_ADDRESS = (http.MissingSchema, http.InvalidSchema, http.InvalidURL)
SHORTEST_SECRET = 4  # shorter parts of a broken token are in every other word
_LOGIN = re.compile(r"(?<=//)[^\s/]*@")
_TOKEN = re.compile(r"\bhf_\w{6,}|(?<=Bearer )[^\s'\"]+")


def is_broken_line(error: Exception) -> bool:
    """Whether trying again may help: nobody answered, or the answer broke off."""
    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        return is_broken_line(error.__cause__)
    if isinstance(error, http.SSLError | http.ProxyError):
        return False
    return isinstance(error, http.ConnectionError | http.Timeout | http.ChunkedEncodingError)


def is_unreachable(error: Exception) -> bool:
    """Whether the Hub said nothing of use, so that what lies in the cache has to do."""
    return isinstance(error, OfflineModeIsEnabled | http.RequestException) and (_status(error) or 500) >= 500


def hub_sentence(error: Exception, revision: str, mend_revision: str, token: str = "") -> str:
    """What went wrong, and what mends it.

    Args:
        revision: what was asked for. mend_revision: what to do where the Hub does not know it.
        token: what was asked with; it is in no sentence, whatever the error says.
    """
    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the Hub did answer, or nobody did; the cache was asked after that
    status, text = _status(error), _text(error, token)
    if isinstance(error, RevisionNotFoundError):
        return f"{REPOSITORY} has no revision {revision}; {mend_revision}."
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return f"{REPOSITORY} at {revision} lacks a file that is needed: {text}"
    if status == 401:
        return f"The Hugging Face token is not valid (401). Make a new one on {TOKEN_PAGE} and set HF_TOKEN."
    if isinstance(error, GatedRepoError) or status == 403:
        return f"This token may not read the weights yet (403): accept the licence on {LICENCE_PAGE} with its account."
    if isinstance(error, RepositoryNotFoundError):
        return f"The Hub does not show {REPOSITORY} to this token{_by_endpoint()}. Check the token on {TOKEN_PAGE}."
    if status == 429:
        return "The Hub asks for patience (429, too many requests). Start again in some minutes; what is here is kept."
    if status is not None and status >= 500:
        return f"The Hub has trouble ({status}); see {STATUS_PAGE} and start again later. What is here is kept."
    return _disk_sentence(error, text) or _line_sentence(error, text) or f"The Hub did not give the files: {text}"


def offline_sentence(missing: list[str]) -> str:
    """Nobody can be asked, and the cache is not complete."""
    here = len(FILES) - len(missing)
    why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "The Hub cannot be reached"
    mend = "without HF_HUB_OFFLINE" if constants.HF_HUB_OFFLINE else f"with a connection{_by_endpoint()}"
    what = f"{here} of {len(FILES)} files are in {cache_folder()}, missing: {', '.join(missing)}"
    return f"{why} and the cache is not complete: {what}. Start once {mend}, then offline works."


def _disk_sentence(error: Exception, text: str) -> str | None:
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT):
        free = size_words(free_bytes(cache_folder()))
        return (
            f"The disk is full: {free} are free in {cache_folder()}. Make room there, or set HF_HOME to a folder on a "
            "larger disk; the next start goes on where this one stopped."
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return f"{cache_folder()} cannot be written: {text}. Set HF_HOME to a folder that can."
    return None


def _line_sentence(error: Exception, text: str) -> str | None:
    if isinstance(error, WRONG_ADDRESS):
        return wrong_address()
    if isinstance(error, http.SSLError):
        return f"The connection to the Hub is not to be trusted; check this machine's clock and proxy: {text}"
    if isinstance(error, http.ProxyError):
        return f"The proxy does not lead to the Hub; check HTTPS_PROXY: {text}"
    if is_broken_line(error):
        return f"The connection to the Hub broke{_by_endpoint()}. Start again; what is here is kept and goes on."
    if isinstance(error, http.JSONDecodeError):
        return f"What answered is not the Hub{_by_endpoint()}; a proxy or a log-in page may stand before it."
    if "Consistency check failed" in str(error):
        return (
            "The Hub sent a file of another length than it had said. Start again; if that stays so, see " + STATUS_PAGE
        )
    return None


def _by_endpoint() -> str:
    """Names another Hub where one is set: then it may be what is wrong."""
    default = constants.ENDPOINT in ("https://huggingface.co", "")
    return "" if default else f" (HF_ENDPOINT is {without_login(constants.ENDPOINT)})"


def wrong_address() -> str:
    """HF_ENDPOINT, or what an answer led to, cannot be asked."""
    return (
        f"HF_ENDPOINT is {without_login(constants.ENDPOINT)}, which does not lead to a Hub: unset it, or set it to an "
        "address such as https://huggingface.co."
    )


def without_login(text: str) -> str:
    """Addresses without the name and the password in them."""
    return _LOGIN.sub("", text)


def _status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return int(status) if status is not None else None


def _text(error: Exception, token: str) -> str:
    """An error's own words in one line, without token and logins, which errors quote in several ways."""
    text = str(error)
    for form in (
        token,
        repr(token)[1:-1],
        " ".join(token.split()),
        quote(token, safe="", errors="replace"),
        *token.split(),
    ):
        text = text.replace(form, "...") if len(form) >= SHORTEST_SECRET else text
    return without_login(_TOKEN.sub("...", " ".join(text.split())))[:250]
