"""The real server in a process of its own, on a free port, for tests that come from outside."""

from __future__ import annotations

import contextlib
import itertools
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

from support.nursery import ROOT, Forked, nursery

FIRST_PORT, PORTS_EACH, WORKERS = 20_000, 1_500, 8  # below those that the system gives away
START_SECONDS = 180.0
END_SECONDS = 20.0
_ports = itertools.count(os.getpid())


@dataclass(frozen=True)
class Served:
    """A running server: its address, its process and the file with all that it printed."""

    url: str
    process: subprocess.Popen[bytes] | Forked
    log: Path

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def ended(self, seconds: float) -> int:
        """Its exit code, within so many seconds."""
        return self.process.wait(seconds)


def free_port() -> int:
    """A port that nobody listens on, and that neither the system nor another of pytest's workers gives away."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    first = FIRST_PORT + PORTS_EACH * (worker % WORKERS)
    for _ in range(PORTS_EACH):
        port = first + next(_ports) % PORTS_EACH
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@contextlib.contextmanager
def served(*flags: str, script: Path | None = None, fresh: bool = False, **variables: str) -> Iterator[str]:
    """Runs `app.py` (or another script) with flags and variables; yields its address once it is ready."""
    with serving(*flags, script=script, fresh=fresh, **variables) as server:
        yield server.url


@contextlib.contextmanager
def serving(*flags: str, script: Path | None = None, fresh: bool = False, **variables: str) -> Iterator[Served]:
    """The same, with the process in hand; it may have ended when the test is over. Talks hold no end up for long.

    Args:
        fresh: in an interpreter of its own, as a user starts it; else forked from one that has loaded the libraries.
    """
    port = free_port()
    folder = (ROOT / ".pytest_cache").resolve()
    folder.mkdir(exist_ok=True)
    log = folder / f"server-{port}.log"
    log.write_bytes(b"")
    asked = ["--port", str(port), "--drain-seconds", "1", *flags]
    process = _started(script or ROOT / "app.py", asked, variables, log, fresh)
    try:
        wait_until_up(f"http://127.0.0.1:{port}/health/ready", process)
        yield Served(f"http://127.0.0.1:{port}", process, log)
    finally:
        _end(process)


def _started(
    script: Path, flags: list[str], variables: dict[str, str], log: Path, fresh: bool
) -> subprocess.Popen[bytes] | Forked:
    if not fresh and nursery().fits(variables):
        return nursery().fork(script, flags, variables, log)
    command, environment = [sys.executable, str(script), *flags], {**os.environ, **variables}
    with log.open("wb") as output:
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=environment)


def _end(process: subprocess.Popen[bytes] | Forked) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def wait_until_up(url: str, process: subprocess.Popen[bytes] | Forked) -> None:
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
