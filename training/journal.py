"""A log against time: one JSON object a line, flushed at once; and how much of a step's time is spent.

In: figures. Out: `WORK/log/STEP.jsonl` and the same line on the terminal.
Must not know: what is measured.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any


class Journal:
    """The log of one step; used as a context it also notes beginning, end and failure."""

    def __init__(self, work: Path, step: str) -> None:
        self._began = time.time()
        self._step = step
        path = work / "log" / f"{step}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    @property
    def seconds(self) -> float:
        """Since this step began."""
        return time.time() - self._began

    def note(self, event: str, **figures: Any) -> None:
        """One line: when, which step, what; floats shortened."""
        short = {key: round(value, 5) if isinstance(value, float) else value for key, value in figures.items()}
        line = json.dumps({"at": round(self.seconds, 1), "step": self._step, "event": event, **short})
        self._file.write(line + "\n")
        self._file.flush()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def __enter__(self) -> Journal:
        self.note("begin", clock=time.strftime("%Y-%m-%dT%H:%M:%S"))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.note("end" if error is None else "failed", **({} if error is None else {"error": repr(error)[:300]}))
        self._file.close()
