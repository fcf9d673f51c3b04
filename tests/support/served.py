"""The real server as a subprocess, on a free port, for tests that come from outside."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 90.0
END_SECONDS = 20.0


@dataclass(frozen=True)
class Served:
    """A running server: its address, its process and the file with all that it printed."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def ended(self, seconds: float) -> int:
        """Its exit code, within so many seconds."""
        return self.process.wait(seconds)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(*flags: str, script: Path | None = None, **variables: str) -> Iterator[str]:
    """Runs `app.py` (or another script) with flags and variables; yields its address once it is ready."""
    with serving(*flags, script=script, **variables) as server:
        yield server.url


@contextlib.contextmanager
def serving(*flags: str, script: Path | None = None, **variables: str) -> Iterator[Served]:
    """The same, with the process in hand; it may have ended when the test is over. Talks hold no end up for long."""
    port = free_port()
    folder = (ROOT / ".pytest_cache").resolve()
    folder.mkdir(exist_ok=True)
    log = folder / f"server-{port}.log"
    command = [sys.executable, str(script or ROOT / "app.py"), "--port", str(port), "--drain-seconds", "1", *flags]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **variables}
        )
        try:
            wait_until_up(f"http://127.0.0.1:{port}/health/ready", process)
            yield Served(f"http://127.0.0.1:{port}", process, log)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    """Returns once the page answers; fails where the server ended first, or lost somebody once it had answered."""
    deadline = time.monotonic() + START_SECONDS
    answered = False
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"the server ended with code {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except urllib.error.HTTPError as error:
            error.close()
            answered = True
        except OSError as error:
            lost = isinstance(getattr(error, "reason", error), ConnectionError)
            assert not (answered and lost), "between two servers somebody met a closed door"
        time.sleep(0.25)
    raise AssertionError("the server did not come up")
