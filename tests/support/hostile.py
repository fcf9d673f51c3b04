"""Five hundred names that are no voice's, and a world in which no file can be touched."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ODD = (
    "",
    " ",
    ".",
    "..",
    "-rf",
    "_x",
    "/etc/passwd",
    "../../etc/passwd",
    "..\\..\\windows\\system32",
    "C:\\secrets",
    "~/.ssh/id_rsa",
    "file:///etc/passwd",
    "http://169.254.169.254/",
    "TINY0.pt",
    "TINY0\x00",
    "\x00",
    "TINY0/../TINY0",
    "TINY0\n",
    "TINY0 ",
    "ＴＩＮＹ０",
    "TINY٠",
    "․․/TINY0",
    "‥/TINY0",
    "．．／etc／passwd",
    "%2e%2e%2fetc%2fpasswd",
    "$(id)",
    "`id`",
    "TINY0;id",
    "{TINY0}",
    "<script>",
    "é",
    "😀",
    "x" * 33,
    "x" * 100_000,
    "CON:",
    "\ud800",
)
PIECES = (
    "../",
    "..\\",
    "/",
    "\x00",
    "․․/",
    "%2e%2e/",
    "etc",
    "passwd",
    "TINY0",
    ".pt",
    "～",
    "\u202e",
    "\n",
    "//",
    "‥",
)


def hostile_names() -> list[str]:
    """The same ones every time."""
    dice, names = random.Random(0), list(ODD)
    while len(names) < 500:
        name = "".join(dice.choice(PIECES) for _ in range(dice.randrange(1, 9)))
        if not name.isascii() or not name.replace("_", "").isalnum():
            names.append(name)
    return names


@contextlib.contextmanager
def no_files() -> Iterator[list[object]]:
    """Every way to open or look at a file, forbidden; gives the list of attempts."""
    attempts: list[object] = []

    def forbidden(*arguments: object, **named: object) -> None:
        attempts.append(arguments)
        raise AssertionError(f"a file is touched: {arguments!r}")

    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "stat"), (torch, "load")):
            patch.setattr(place, name, forbidden)
        for name in ("open", "stat", "exists", "is_file", "read_bytes"):
            patch.setattr(Path, name, forbidden)
        yield attempts
