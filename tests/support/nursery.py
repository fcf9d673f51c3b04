"""Servers without the wait for their libraries: one process loads those once, and every server is forked from it.

In: a script, its flags and variables. Out: processes. Such a server reads flags, variables and files as a fresh one
does, but takes no time to come and to go; tests of the start and of the end take a fresh one.
Must not know: what the scripts do.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
READ_LATE = (
    "PERSONAPLEX_",
    "PROBE_",
    "PYTEST_",
    "HF_TOKEN",
    "GRADIO_ROOT_PATH",
)  # the libraries read the others
LOOK_SECONDS = 0.02


class Forked:
    """A server, to be treated as a `subprocess.Popen` is."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery

    def poll(self) -> int | None:
        """Its exit code once it has ended; less than 0: the signal that ended it."""
        if self.returncode is None:
            self.returncode = self._nursery.code_of(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The same; raises subprocess.TimeoutExpired."""
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"server {self.pid}", timeout or 0.0)
            time.sleep(LOOK_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process with the libraries, as the tests see it; it ends with them."""

    def __init__(self) -> None:
        self._variables = dict(os.environ)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _changes(self, variables: Mapping[str, str]) -> dict[str, str | None]:
        wanted, had = {**os.environ, **variables}, self._variables
        return {name: wanted.get(name) for name in {*wanted, *had} if wanted.get(name) != had.get(name)}

    def fits(self, variables: Mapping[str, str]) -> bool:
        """Whether the libraries would have been loaded in the same way under these variables."""
        return all(name.startswith(READ_LATE) for name in self._changes(variables))

    def fork(self, script: Path, flags: list[str], variables: Mapping[str, str], log: Path) -> Forked:
        """Runs a script, in the network of the calling thread; what it prints goes to `log`."""
        network = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"
        wish = {"script": str(script), "flags": flags, "variables": self._changes(variables), "log": str(log)}
        return Forked(self, self._ask({**wish, "network": network}))

    def code_of(self, pid: int) -> int | None:
        """The exit code of a server, None while it runs; a code is told once."""
        code: int | None = self._ask({"pid": pid})
        return code

    def _ask(self, wish: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(wish) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, "the nursery is gone"
        return json.loads(answer)

    def close(self) -> None:
        """Servers that are left are no longer its own."""
        self._process.communicate()


@functools.cache
def nursery() -> Nursery:
    """The one of this run of tests, from the first server on."""
    made = Nursery()
    atexit.register(made.close)
    return made


# In the process with the libraries.


def _load() -> None:
    sys.path.insert(0, str(ROOT))
    importlib.import_module("personaplex_app.web.server").import_early()


def _answer_until_born() -> dict[str, Any] | None:
    """Answers wishes; returns in every server's own process with what it is to be, and here, in the end, with None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    for line in sys.stdin:
        wish = json.loads(line)
        if "pid" in wish:
            pid, status = os.waitpid(wish["pid"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif not (answer := _forked(wish)):
            answers.close()
            return dict(wish)
        print(json.dumps(answer), file=answers, flush=True)
    return None


def _forked(wish: dict[str, Any]) -> int:
    """The server's number; 0 in its own process."""
    networks = importlib.import_module("networks")  # it lies beside this file, which runs as a script here
    network = os.open(wish["network"], os.O_RDONLY)
    sys.stdout.flush()
    pid = os.fork()
    if not pid and os.fstat(network).st_ino != os.stat("/proc/self/ns/net").st_ino:
        networks.enter(network)
    os.close(network)
    return pid


def _become(born: dict[str, Any]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, value in born["variables"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(born["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    sys.argv = [born["script"], *born["flags"]]
    sys.path[:2] = [str(Path(born["script"]).parent)]  # the first two: this file's folder, and the app's


def _live(script: str) -> int:
    """Runs the script to its end, threads and all; returns its exit code."""
    code: Any = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    return int(code or 0)


if __name__ == "__main__":
    _load()
    if (born := _answer_until_born()) is not None:
        _become(born)
        os._exit(_live(born["script"]))  # without the seconds in which an interpreter takes itself apart
