"""A small Hub on this machine: one model's files behind the few routes that `huggingface_hub` asks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from personaplex_app.model.checkpoint import VOICES_ARCHIVE
from personaplex_app.model.hub import FILES, REPOSITORY

FIRST_COMMIT, SECOND_COMMIT = "a" * 40, "b" * 40
API = f"/api/models/{REPOSITORY}"
GATED = (403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to model is restricted."})


@dataclass
class FakeHub:
    """What the Hub holds, how it answers, and what it was asked.

    Attributes:
        names: branches and commits by name. refuse: status and headers for the API or for files, by `api` or `files`.
        asked: (method, path, authorization) of every request.
    """

    files: dict[str, bytes]
    names: dict[str, str] = field(default_factory=lambda: {"main": FIRST_COMMIT})
    refuse: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    url: str = ""

    @property
    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]

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
        body = self.files[file]
        return 200, {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": commit}, body


def _make_handler(hub: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append((self.command, self.path, self.headers.get("authorization", "")))
            status, headers, body = hub.answer(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

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


def released_files(checkpoint: Path, work: Path) -> dict[str, bytes]:
    """A checkpoint's files as the repository holds them, voices in their archive."""
    archive = work / VOICES_ARCHIVE
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(checkpoint / "voices", arcname="voices")
    return {name: (archive if name == VOICES_ARCHIVE else checkpoint / name).read_bytes() for name in FILES}
