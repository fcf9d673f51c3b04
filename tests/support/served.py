"""The real server as a subprocess, on a free port, for tests that come from outside."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 90.0


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(*flags: str, script: Path | None = None, **variables: str) -> Iterator[str]:
    """Runs `app.py` (or another script) with flags and variables; yields its address once the page answers."""
    port = free_port()
    log = (ROOT / ".pytest_cache").resolve()
    log.mkdir(exist_ok=True)
    with (log / f"server-{port}.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(script or ROOT / "app.py"), "--port", str(port), *flags],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **variables},
        )
        try:
            wait_until_up(f"http://127.0.0.1:{port}/", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(15)


def wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    """Returns once the page answers; fails where the server ended first."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended with code {process.returncode}")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.25)
    raise AssertionError("the server did not come up")
