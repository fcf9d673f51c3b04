"""Where the steps of one training leave their work, and the options that all commands share.

In: the command line. Out: `Places`.
Must not know: any step.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """Folders and files below one work directory."""

    work: Path

    @property
    def tokenizer(self) -> Path:
        return self.work / "world" / "tokenizer.model"

    def done(self, step: str) -> Path:
        """The mark of a step that leaves many files."""
        return self.work / f"{step}.done"

    @property
    def speech(self) -> Path:
        return self.work / "speech"

    @property
    def codec(self) -> Path:
        return self.work / "codec" / "codec.pt"

    @property
    def decoder(self) -> Path:
        return self.work / "decoder" / "codec.pt"

    @property
    def codes(self) -> Path:
        return self.work / "codes"

    @property
    def language(self) -> Path:
        return self.work / "language" / "language.pt"

    @property
    def package(self) -> Path:
        return self.work / "package"


def parser(what: str) -> argparse.ArgumentParser:
    """A command's options: where to work, how large, how long."""
    options = argparse.ArgumentParser(description=what)
    options.add_argument("--work", type=Path, default=Path("training-work"), help="the work directory")
    options.add_argument("--size", choices=("toy", "full"), default="full")
    options.add_argument("--pace", type=float, default=1.0, help="0.5: half the time for whatever takes its time")
    options.add_argument("--seconds", type=float, default=None, help="stop after so long; the next call goes on")
    return options
