"""Whether the files in the cache are the Hub's: sizes and SHA-256, read once and remembered.

In: a snapshot's folder. Out: nothing, or InvalidInput that names the damaged file and the command that removes it.
Must not know: how files are fetched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from personaplex_app.errors import InvalidInput
from personaplex_app.model.byte_progress import ByteProgress, Report, size_words
from personaplex_app.model.hub_files import FILES, HubFile

RECORD_FILE = "personaplex-checked.json"
BLOCK_BYTES = 2**22


def check_files(folder: Path, fetched: Iterable[HubFile], cache: Path, report: Report) -> None:
    """Reads every large file that was not read as it lies there now; later starts read none.

    Args:
        fetched: what the Hub said of the files, where it was asked; else a file's name in the cache is its checksum.
        cache: where it is remembered what was read. A cache that cannot be written costs reading again.
    """
    said = {file.name: file for file in fetched}
    record = _read_record(cache)
    for name in FILES:
        path = (folder / name).resolve()
        known = record.get(str(path), {})
        etag = said[name].etag if name in said else path.name
        checksum = etag if _is_sha256(etag) else known.get("sha256")
        size = said[name].size_bytes or None if name in said else known.get("size_bytes")
        now = {"sha256": checksum, "size_bytes": path.stat().st_size, "changed_ns": path.stat().st_mtime_ns}
        if checksum is None or known == now:
            continue
        _check(path, name, checksum, size, report)
        record[str(path)] = now
        _write_record(cache, record)


def _check(path: Path, name: str, checksum: str, size_bytes: int | None, report: Report) -> None:
    found = path.stat().st_size
    if size_bytes is not None and found != size_bytes:
        raise InvalidInput(_sentence(path, f"{name} has {size_words(found)} ({found} bytes) instead of {size_bytes}"))
    if _sha256(path, ByteProgress(f"Checking {name}", found, report)) != checksum:
        raise InvalidInput(_sentence(path, f"{name} is damaged: its SHA-256 is not the Hub's"))


def _sentence(path: Path, what: str) -> str:
    return f"{what}. Delete it and start again, then only this file is fetched anew: rm {shlex.quote(str(path))}"


def _sha256(path: Path, progress: ByteProgress) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            progress.add(len(block))
    return digest.hexdigest()


def _is_sha256(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{64}", text) is not None


def _read_record(cache: Path) -> dict[str, dict[str, Any]]:
    try:
        record = json.loads((cache / RECORD_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        {path: known for path, known in record.items() if isinstance(known, dict)} if isinstance(record, dict) else {}
    )


def _write_record(cache: Path, record: dict[str, dict[str, Any]]) -> None:
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        partial = cache / f"{RECORD_FILE}.partial"
        partial.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        partial.replace(cache / RECORD_FILE)
