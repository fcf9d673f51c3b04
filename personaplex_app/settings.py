"""Settings: environment and flags become one frozen value. The only reader of the environment.

In: a mapping of variables, parsed flags. Out: `Settings`.
Must not know: torch, the web, what the settings do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from personaplex_app.errors import InvalidInput

CACHE_VARIABLE = "PERSONAPLEX_CACHE"


def environment() -> Mapping[str, str]:
    """The process's variables."""
    return os.environ


def cache_directory(variables: Mapping[str, str]) -> Path:
    """Where conversions are kept: `PERSONAPLEX_CACHE`, else the user's cache folder."""
    named = variables.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    return Path(variables.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "personaplex_app"


@dataclass(frozen=True)
class ServeSettings:
    """How the page is served."""

    host: str
    port: int

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InvalidInput(f"The port must be from 0 to 65535, not {self.port}.")
