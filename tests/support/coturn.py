"""A real coturn in the middle room, listening on TCP only."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.netns import MIDDLE_OF_CLIENT, MIDDLE_OF_SERVER, Room

PORT = 3478
SECRET = "a secret of this test alone"
START_SECONDS = 10.0


@dataclass(frozen=True)
class Coturn:
    """Its address as each side sees it, and what it logs."""

    log: Path
    of_client: str = f"turn:{MIDDLE_OF_CLIENT}:{PORT}?transport=tcp"
    of_server: str = f"turn:{MIDDLE_OF_SERVER}:{PORT}?transport=tcp"


@contextlib.contextmanager
def coturn(middle: Room, folder: Path, relay_address: str) -> Iterator[Coturn]:
    """Runs it with `relay_address` as the one at which relayed sound comes and goes."""
    binary = shutil.which("turnserver")
    assert binary, "this test needs a coturn (Debian: apt-get install coturn)"
    log = folder / "coturn.log"
    flags = ["-n", "--no-udp", "--no-tls", "--no-dtls", "--no-cli", "--no-rfc5780", "--use-auth-secret", "--verbose"]
    flags += [f"--static-auth-secret={SECRET}", "--realm=talk", f"--listening-port={PORT}"]
    flags += [f"--listening-ip={MIDDLE_OF_CLIENT}", f"--listening-ip={MIDDLE_OF_SERVER}", f"--relay-ip={relay_address}"]
    flags += [f"--userdb={folder / 'turndb'}", f"--pidfile={folder / 'coturn.pid'}", "--log-file=stdout"]
    with middle.inside(), log.open("wb") as output:
        process = subprocess.Popen([binary, *flags], stdout=output, stderr=subprocess.STDOUT, cwd=folder)
    try:
        _wait_until_up(middle, process, log)
        yield Coturn(log)
    finally:
        process.terminate()
        process.wait(10)


def _wait_until_up(middle: Room, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with middle.inside():
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection((MIDDLE_OF_SERVER, PORT), timeout=1):
                return
            assert process.poll() is None, f"coturn ended: {log.read_text(errors='replace')[-2000:]}"
            time.sleep(0.05)
    raise AssertionError(f"coturn did not come up: {log.read_text(errors='replace')[-2000:]}")
