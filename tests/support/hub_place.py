"""For whatever fetches from a small Hub: five files of invented content, and a machine that has none of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hub import FakeHub, Place, place_for, serving

from personaplex_app.model import hub_download
from personaplex_app.model.checkpoint import WEIGHTS_FILE
from personaplex_app.model.hub import FILES

LARGE_BYTES = 3_000_000  # of the weights here: several of the pieces in which a file is read


def invented_files() -> dict[str, bytes]:
    """Content by name; nothing of it is a checkpoint."""
    die = random.Random(1)
    return {name: die.randbytes(LARGE_BYTES if name == WEIGHTS_FILE else 2000 + len(name)) for name in FILES}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Its pauses between tries are short, its looks at growing files frequent."""
    monkeypatch.setattr(hub_download, "PAUSES_SECONDS", (0.01, 0.01, 0.01))
    monkeypatch.setattr(hub_download, "LOOK_SECONDS", 0.02)
    with serving(FakeHub(invented_files())) as hub, place_for(hub, tmp_path, monkeypatch) as place:
        yield place
