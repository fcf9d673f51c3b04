"""The released files as the Hub names them and as they lie in its cache.

In: a token, a revision. Out: names, sizes and checksums, and how much of each is on this disk.
Must not know: how they are fetched, what the sentences for errors are.

In the cache of `huggingface_hub` a file's content lies under its ETag (for large files their SHA-256) as `blobs/ETAG`,
while it is fetched as `blobs/ETAG.incomplete`; `snapshots/COMMIT/NAME` points there.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.file_download import repo_folder_name

from personaplex_app.model.checkpoint import CODEC_FILE, CONFIG_FILE, TOKENIZER_FILE, VOICES_ARCHIVE, WEIGHTS_FILE

REPOSITORY = "nvidia/personaplex-7b-v1"
FILES = (CONFIG_FILE, TOKENIZER_FILE, VOICES_ARCHIVE, CODEC_FILE, WEIGHTS_FILE)
DEFAULT_REVISION = "main"
RELEASED_BYTES = 17_000_000_000  # of all files together, about
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class HubFile:
    """A file of one commit.

    Attributes:
        etag: what its content is called; the SHA-256 of a large file.
    """

    name: str
    commit: str
    size_bytes: int
    etag: str

    @property
    def blob(self) -> Path:
        """Where its content lies once it is whole."""
        return blobs_folder() / self.etag

    @property
    def partial(self) -> Path:
        """Where its content lies while it is fetched."""
        return self.blob.with_name(f"{self.etag}.incomplete")

    def bytes_here(self) -> int:
        """How much of it is on this disk."""
        if cached_file(self.name, self.commit) is not None:
            return self.size_bytes
        for path in (self.blob, self.partial):
            try:
                return min(self.size_bytes, path.stat().st_size)
            except OSError:
                continue
        return 0


def cache_folder() -> Path:
    """Where the Hub's files lie on this disk."""
    return Path(constants.HF_HUB_CACHE)


def has_home() -> bool:
    """Whether the Hub's cache has a place: without HOME the library takes a folder named `~` where it is started."""
    return not constants.HF_HUB_CACHE.startswith("~")


def _repository_folder() -> Path:
    return cache_folder() / repo_folder_name(repo_id=REPOSITORY, repo_type="model")


def blobs_folder() -> Path:
    """Where the contents of the released files lie."""
    return _repository_folder() / "blobs"


def is_commit(revision: str) -> bool:
    """Whether a revision is a commit, which means the same for ever; a branch or a tag can move."""
    return re.fullmatch(r"[0-9a-f]{40}", revision) is not None


def cached_file(name: str, revision: str) -> Path | None:
    """A file's place in the cache, if it is there."""
    found = try_to_load_from_cache(REPOSITORY, name, revision=revision)
    return Path(found) if isinstance(found, str) else None


def missing_files(revision: str) -> list[str]:
    """The names that the cache lacks of a revision; of a branch, what it was when the Hub was last asked."""
    return [name for name in FILES if cached_file(name, revision) is None]


def complete_commits() -> list[str]:
    """The commits of which the cache lacks nothing, the one fetched last first."""
    try:
        folders = [path for path in (_repository_folder() / "snapshots").iterdir() if not missing_files(path.name)]
        return [path.name for path in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)]
    except OSError:
        return []


def remember_name(revision: str, commit: str) -> None:
    """Notes what a branch or a tag was, as the library does for whoever fetches by name: offline it is found so."""
    name = PurePosixPath(revision)
    if is_commit(revision) or name.is_absolute() or ".." in name.parts:
        return
    path = _repository_folder() / "refs" / name
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commit, encoding="utf-8")


def ask_hub(token: str, revision: str) -> list[HubFile]:
    """The files of the commit that a revision is now; raises whatever `huggingface_hub` does.

    The first question is not repeated where nobody answers: who is offline should not wait for half a minute.
    """
    commit = HfApi(token=token).model_info(REPOSITORY, revision=revision, timeout=PATIENCE_SECONDS).sha or revision
    files = []
    for name in FILES:
        known = get_hf_file_metadata(hf_hub_url(REPOSITORY, name, revision=commit), token=token)
        files.append(HubFile(name, commit, known.size or 0, known.etag or ""))
    return files
