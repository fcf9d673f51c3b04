"""Browser tests: microphones as files, servers as subprocesses with a window into them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from playwright.sync_api import expect
from support.served import served

from personaplex_app.audio import Pcm

LOOKED_SECONDS = 20.0
EXPECTED_MS = 20_000  # playwright's own 5 s are too few on a busy machine
PROBE = Path(__file__).parents[1] / "support" / "probe_server.py"
expect.set_options(timeout=EXPECTED_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def echo_url() -> Iterator[str]:
    """One server for all who need nothing special: the echo, one line."""
    with served("--engine", "echo") as url:
        yield url


@pytest.fixture(scope="package")
def plain_url() -> Iterator[str]:
    """The same, with nothing between the microphone and the line."""
    with served("--engine", "echo", "--plain-microphone") as url:
        yield url


@pytest.fixture
def microphone(tmp_path: Path) -> Any:
    """Writes float32 sound as the WAV that Chromium plays."""

    def write(pcm: Pcm, rate_hz: int = 24_000, name: str = "mic.wav") -> Path:
        path = tmp_path / name
        soundfile.write(path, np.asarray(pcm), rate_hz)
        return path

    return write


class Probe:
    """What the server under test says of its sessions, and a switch that makes it fail."""

    def __init__(self, folder: Path) -> None:
        self.out, self.fail = folder / "sessions.json", folder / "fail"
        self.variables = {"PROBE_OUT": str(self.out), "PROBE_FAIL": str(self.fail)}

    def sessions(self) -> list[dict[str, Any]]:
        """Every session so far, oldest first, as they are now."""
        return self.everything()["sessions"]

    def everything(self) -> dict[str, Any]:
        """Sessions, and how many threads and peers the server has."""
        for _ in range(2):  # the first look may have begun before
            seen, until = self._looked_at(), time.monotonic() + LOOKED_SECONDS
            while self._looked_at() == seen:
                assert time.monotonic() < until, "the server under test looks at nothing any more"
                time.sleep(0.02)
        return json.loads(self.out.read_text())

    def _looked_at(self) -> int:
        return self.out.stat().st_mtime_ns if self.out.exists() else 0


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    return Probe(tmp_path)


@pytest.fixture
def demo_directory() -> Path:
    """The packaged trained miniature."""
    import personaplex_app

    return Path(personaplex_app.__file__).parent / "checkpoints" / "demo"
