"""What the server does while it starts: lines that are reported become phases and facts that a page can show. Pure.

A phase begins with what is being done: `Loading weights ...`, `Fetching: 3.2 of 16.7 GB, 120 MB/s`; it tells how far it
is by `A of B` or `N %`, and lines that differ in such numbers only belong to one phase. Any other line is a fact.
In: lines, from any thread. Out: a `View`, free of paths and secrets. Must not know: who reports, how it is shown.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

LOG_SECONDS = 10.0  # between two logged lines of one phase
MOST_DONE = 12
MOST_CHARACTERS = 400
_DOING = re.compile(r"\w+ing\b")
_FIGURE = r"(\d+(?:\.\d+)?)"
_UNIT = r"(?: ?(?:([kKMGT]i?)?B|bytes))?"
_OF = re.compile(rf"(?<![(\w.]){_FIGURE}{_UNIT} of {_FIGURE}{_UNIT}")
_PERCENT = re.compile(rf"(?<![\w.]){_FIGURE} ?%")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_BEGIN = r"(?:~|\.{1,2})?/"  # of a path
_WORD = r"[^\s/:;,'\"()]+"
_FOLDER = rf"{_WORD}(?:(?<!\.) (?!nvidia/|\S*B/s){_WORD})*/"  # spaces may be in it, a sentence's end and a speed not
_PATH = re.compile(rf"(?<![\w:/.~<-]){_BEGIN}(?:{_FOLDER})*({_WORD})/?")
_QUOTED = re.compile(rf"(?<!\w)(['\"]){_BEGIN}(?:(?!\1).)*?([^/'\"]*)/?\1")
_FILE = re.compile(r"\bfile:/*(?=/)")
_TOKEN = re.compile(r"\bhf_\w{6,}")
_LOGIN = re.compile(r"(?<=//)[^\s/]*@")
_BYTES = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@dataclass(frozen=True)
class Phase:
    """One thing that is done.

    Attributes:
        words: what. detail: how far, in words; empty where nobody says. fraction: the same, 0 to 1.
    """

    words: str
    detail: str = ""
    fraction: float | None = None

    def goes_on_in(self, later: Phase) -> bool:
        """Whether a later line tells of the same thing."""
        if self.words == later.words:
            return True
        counted = self.fraction is not None and later.fraction is not None
        return counted and _alike(self.words, later.words)


@dataclass(frozen=True)
class View:
    """All that a page shows.

    Attributes:
        failed: the sentence with which the start ended. seconds: how long the phase lasts by now.
        done: earlier phases with the seconds that each took, and facts, without.
    """

    phase: Phase
    failed: str
    seconds: float
    done: tuple[tuple[str, float | None], ...]


def read_line(line: str) -> Phase | str:
    """A reported line as a phase, or, where nothing is being done, as a fact."""
    text = shown(line)
    if not _DOING.match(text):
        return text
    text = text.rstrip(" .…")
    fraction = _fraction(text)
    words, colon, detail = text.partition(": ")
    if colon and _fraction(detail) is not None:
        return Phase(words, detail, fraction)
    return Phase(text, "", fraction)


def shown(line: str) -> str:
    """One line of a text as a stranger may read it: without directories, tokens and logins."""
    text = _FILE.sub("", " ".join(line.split())[: 4 * MOST_CHARACTERS])
    text = _PATH.sub(r"\1", _QUOTED.sub(r"\1\2\1", text))
    return _LOGIN.sub("", _TOKEN.sub("hf_…", text))[:MOST_CHARACTERS]


def _alike(one: str, other: str) -> bool:
    """Whether two lines differ in their numbers at most."""
    return _NUMBER.sub("#", one) == _NUMBER.sub("#", other)


def _fraction(text: str) -> float | None:
    of = _OF.findall(text)
    if of:
        done, unit, whole, whole_unit = of[-1]
        total = float(whole) * _BYTES[whole_unit]
        return min(1.0, float(done) * _BYTES[unit or whole_unit] / total) if total else None
    percent = _PERCENT.findall(text)
    return min(1.0, float(percent[-1]) / 100) if percent else None


class Progress:
    """Takes lines, keeps the phase of now and those before it.

    Args:
        tell: gets the lines for the log, within one phase only every ten seconds. clock: steady seconds.
    """

    def __init__(
        self, tell: Callable[[str], object] = lambda line: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._phase = Phase("Starting")
        self._began = self._told_at = clock()
        self._done: list[tuple[str, float | None]] = []
        self._failed = ""

    def report(self, line: str) -> None:
        """What is done from now on, or how far it is, or a fact."""
        with self._lock:
            told = self._take(read_line(line), self._clock())
        if told:
            self._tell(line)

    def _take(self, found: Phase | str, now: float) -> bool:
        """Whether it is worth a line in the log."""
        if isinstance(found, str):
            self._keep(found, None)
            return True
        same = self._phase.goes_on_in(found)
        if not same:
            self._keep(self._phase.words, now - self._began)
            self._began = now
        self._phase = found
        told = not same or now - self._told_at >= LOG_SECONDS
        self._told_at = now if told else self._told_at
        return told

    def _keep(self, words: str, seconds: float | None) -> None:
        """A fact that is told again with other numbers takes its own place."""
        if seconds is None and self._done and self._done[-1][1] is None and _alike(self._done[-1][0], words):
            self._done.pop()
        self._done = [*self._done, (words, seconds)][-MOST_DONE:]

    def fail(self, sentence: str) -> None:
        """The start is over, and why."""
        with self._lock:
            self._failed = shown(sentence)

    @property
    def view(self) -> View:
        """The state of now."""
        with self._lock:
            return View(self._phase, self._failed, self._clock() - self._began, tuple(self._done))
