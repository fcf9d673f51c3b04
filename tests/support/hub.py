"""A small Hub on this machine: one model's files behind the few routes that `huggingface_hub` asks."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import tarfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants, file_download
from huggingface_hub.utils import reset_sessions

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import CONFIG_FILE, VOICES_ARCHIVE
from personaplex_app.model.hub import FILES, PIN_FILE, REPOSITORY, fetch_checkpoint

FIRST_COMMIT, SECOND_COMMIT = "a" * 40, "b" * 40
API = f"/api/models/{REPOSITORY}"
GATED = (403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to model is restricted."})
SLOW_PIECES = 10


def etag_of(name: str, content: bytes) -> str:
    """What the Hub calls a content: git's hash of a small file, the SHA-256 of a large one."""
    if name == CONFIG_FILE:
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Asked:
    """A request: what, by whom, from which byte on."""

    method: str
    path: str
    authorization: str
    first_byte: int

    @property
    def file(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass
class FakeHub:
    """What the Hub holds, how it answers, and what it was asked.

    Attributes:
        names: branches and commits by name. refuse: status and headers for the API or for files, by `api` or `files`.
        sizes: what is said of a file's size where that is not the truth. served: contents sent instead of the true.
        breaks: after how many bytes of a file its next answers break off, one after another; -1 for not at all.
        extra: more headers of a file's answers. slow: how many seconds a file takes, sent in ten pieces.
    """

    files: dict[str, bytes]
    names: dict[str, str] = field(default_factory=lambda: {"main": FIRST_COMMIT})
    refuse: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    served: dict[str, bytes] = field(default_factory=dict)
    breaks: dict[str, list[int]] = field(default_factory=dict)
    extra: dict[str, dict[str, str]] = field(default_factory=dict)
    slow: dict[str, float] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    @property
    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    @property
    def fetched(self) -> list[tuple[str, int]]:
        """Which files were sent, from which byte on."""
        return [
            (asked.file, asked.first_byte)
            for asked in self.asked
            if asked.method == "GET" and "/resolve/" in asked.path
        ]

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a path."""
        kind = "api" if path.startswith("/api/") else "files"
        if kind in self.refuse:
            return (*self.refuse[kind], b"")
        return self._api(path) if kind == "api" else self._file(path)

    def _commit(self, name: str) -> str | None:
        return name if name in self.names.values() else self.names.get(name)

    def _api(self, path: str) -> tuple[int, dict[str, str], bytes]:
        name = path.partition("/revision/")[2] or "main"
        commit = self._commit(name)
        if not path.startswith(API) or commit is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        body = {"id": REPOSITORY, "sha": commit, "siblings": [{"rfilename": name} for name in self.files]}
        return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()

    def _file(self, path: str) -> tuple[int, dict[str, str], bytes]:
        name, _, file = path.removeprefix(f"/{REPOSITORY}/resolve/").partition("/")
        commit = self._commit(name)
        if commit is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if file not in self.files:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b""
        headers = {"ETag": f'"{etag_of(file, self.files[file])}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if file in self.sizes:
            headers["X-Linked-Size"] = str(self.sizes[file])
        return 200, headers | self.extra.get(file, {}), self.served.get(file, self.files[file])


def _make_handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            first = int(self.headers.get("range", "bytes=0-")[len("bytes=") :].split("-")[0])
            asked = Asked(self.command, self.path, self.headers.get("authorization", ""), first)
            hub.asked.append(asked)
            status, headers, body = hub.answer(self.path)
            if status == 200 and "range" in self.headers:
                status = 206 if first < len(body) else 416
                headers |= {"Content-Range": f"bytes {first}-{len(body) - 1}/{len(body)}"}
                body = body[first:]
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self._send(asked.file, body)

        do_HEAD = do_GET

        def _send(self, file: str, body: bytes) -> None:
            breaks = hub.breaks.get(file) or [-1]
            end, seconds = breaks.pop(0), hub.slow.get(file, 0.0)
            body = body if end < 0 else body[:end]
            step = max(1, -(-len(body) // SLOW_PIECES)) if seconds else max(1, len(body))
            with contextlib.suppress(ConnectionError):
                for start in range(0, len(body), step):
                    self.wfile.write(body[start : start + step])
                    time.sleep(seconds / SLOW_PIECES)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    return Handler


@contextlib.contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """The Hub answers on a free port of this machine until the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(hub))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="fake-hub")
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        forget_broken_answers()


def forget_broken_answers() -> None:
    """An answer that breaks off stays with its exception's frames in a circle, and `requests` leaves it to Python.

    Collected here, its socket warns here, where that is meant, and not in whatever test runs later.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@dataclass
class Place:
    """A machine with its own Hub cache and its own pin; fetches in this process."""

    hub: FakeHub
    home: Path
    cache: Path
    lines: list[str] = field(default_factory=list)

    def fetch(self, token: str | None = "hf_good", revision: str | None = None) -> Path:
        """The folder; raises InvalidInput."""
        self.lines.clear()
        return fetch_checkpoint(token, revision, self.cache, self.lines.append)

    def refused(self, token: str | None = "hf_good", revision: str | None = None) -> str:
        """The sentence with which a fetch ends."""
        with pytest.raises(InvalidInput) as refused:
            self.fetch(token, revision)
        sentence = refused.value.sentence
        assert "hf_good" not in sentence and "\n" not in sentence and len(sentence) < 600
        return sentence

    @property
    def pin(self) -> str | None:
        path = self.cache / PIN_FILE
        return path.read_text(encoding="utf-8").strip() if path.is_file() else None

    @property
    def repository(self) -> Path:
        """The repository's folder in the Hub's cache."""
        return self.home / f"models--{REPOSITORY.replace('/', '--')}"

    def blob(self, name: str) -> Path:
        """Where a file's content lies in the Hub's cache."""
        return self.repository / "blobs" / etag_of(name, self.hub.files[name])

    def partial(self, name: str) -> Path:
        """Where it lies while it is fetched."""
        blob = self.blob(name)
        return blob.with_name(f"{blob.name}.incomplete")


@contextlib.contextmanager
def place_for(hub: FakeHub, work: Path, patch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Points this process's `huggingface_hub` at the Hub and at a cache in `work`."""
    point_at(hub.url, patch)
    patch.setattr(constants, "HF_HUB_CACHE", str(work / "hf"))
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    reset_sessions()
    try:
        yield Place(hub, work / "hf", work / "cache")
    finally:
        reset_sessions()


def point_at(url: str, patch: pytest.MonkeyPatch) -> None:
    """The Hub is there from now on."""
    patch.setattr(constants, "ENDPOINT", url)
    patch.setattr(file_download, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")


def released_files(checkpoint: Path, work: Path) -> dict[str, bytes]:
    """A checkpoint's files as the repository holds them, voices in their archive."""
    archive = work / VOICES_ARCHIVE
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(checkpoint / "voices", arcname="voices")
    return {name: (archive if name == VOICES_ARCHIVE else checkpoint / name).read_bytes() for name in FILES}
