"""The engine over whatever stepper a module's own `stepper` fixture gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from personaplex_app.engine.facade import Engine
from personaplex_app.engine.ports import Stepper


@pytest.fixture
def engine(stepper: Stepper) -> Iterator[Engine]:
    with Engine(stepper) as engine:
        yield engine
