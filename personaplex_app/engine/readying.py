"""Readying: prompts that nobody waits for yet are read in spare time, so that whoever chooses one starts at once.

In: names with choices, the most promising first. Out: work for the tick thread, and how soon a talk with each begins.
Where the stepper keeps no prompts, only the time that reading takes is known.
Must not know: what a prompt's state is, personas, the web.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from statistics import mean
from typing import Any, Protocol, runtime_checkable

from personaplex_app.controls import Choices
from personaplex_app.engine.ports import Stepper
from personaplex_app.errors import PersonaplexError
from personaplex_app.out_of_memory import is_out_of_memory, log_fault, smaller_plan
from personaplex_app.thread_names import name_thread

log = logging.getLogger(__name__)

REMEMBERED = 8  # prompts by which the speed of reading is known
LOOK_SECONDS = 0.2


@runtime_checkable
class PromptKeeper(Protocol):
    """A stepper that keeps what some prompts leave behind, so that the next talk with one of them begins at once.

    `keeps` may run on any thread, the rest on the tick thread alone.
    """

    def keeps(self, known_as: Hashable) -> bool:
        """Whether a talk whose opening is `known_as` this would begin at once."""

    def has_room(self, opening: Any) -> bool:
        """Whether one more prompt could be kept and nothing that is kept had to go for it."""

    def prepare_pieces(self, opening: Any) -> Iterator[None]:
        """Reads a prompt in pieces and keeps it, without any slot; each piece is done when it comes back.

        It is the first to go when room is wanted, and is not kept where there is no room in the end.
        """


@dataclass(frozen=True)
class Start:
    """How soon a talk begins: whether its prompt is known, else about how many seconds reading it takes."""

    ready: bool
    seconds: float


@dataclass(frozen=True)
class Prompt:
    """What a stepper's opening says of its prompt: how many positions, and by what it is known, if it can be."""

    positions: int
    known_as: Hashable | None

    @classmethod
    def of(cls, opening: Any) -> Prompt:
        """Of whatever `Stepper.open` gave; one that says nothing has no positions and no name."""
        return cls(getattr(opening, "positions", 0), getattr(opening, "known_as", None))


class ReadingSpeed:
    """How long prompts took to read of late, and so how long another will take."""

    def __init__(self) -> None:
        self._read: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)

    def note(self, positions: int, seconds: float) -> None:
        """One prompt that was read."""
        self._read.append((positions, seconds))

    def seconds(self, positions: int) -> float:
        """For a prompt of so many positions, 0 where they are not known; 0.0 before anything was read."""
        read = list(self._read)
        if not read:
            return 0.0
        usual_positions, usual_seconds = mean(one[0] for one in read), mean(one[1] for one in read)
        if not positions or not usual_positions:
            return usual_seconds
        return usual_seconds * positions / usual_positions


class Readying:
    """Three threads touch it: its own opens prompts, the tick thread reads them, the web asks how soon.

    Args:
        clock: seconds, steady.
    Attributes:
        wanted: what is to be ready, by name; set it before `start`. speed: of the reading of all prompts.
    """

    def __init__(self, stepper: Stepper, clock: Callable[[], float] = time.monotonic) -> None:
        self.speed = ReadingSpeed()
        self.wanted: Sequence[tuple[str, Choices]] = ()
        self._stepper = stepper
        self._keeper = stepper if isinstance(stepper, PromptKeeper) else None
        self._clock = clock
        self._prompts: dict[str, Prompt] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    # Anybody.

    def of(self, name: str) -> Start:
        """How soon a talk with these choices begins; a name that is not known, or cannot be opened, takes as usual."""
        prompt = self._prompts.get(name)
        if prompt is not None and self._is_kept(prompt):
            return Start(True, 0.0)
        return Start(False, self.speed.seconds(prompt.positions if prompt else 0))

    @property
    def ready(self) -> int:
        """How many of the wanted prompts are known now."""
        return sum(self._is_kept(prompt) for prompt in list(self._prompts.values()))

    def start(self, errand: Callable[[Generator[None, None, None]], Future[None]]) -> None:
        """Begins to open what is wanted, one after another, and hands the reading to the tick thread by `errand`."""
        if self.wanted:
            self._thread = threading.Thread(target=self._run, args=(errand,), name="readying", daemon=True)
            self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """No more of it."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _is_kept(self, prompt: Prompt) -> bool:
        return self._keeper is not None and prompt.known_as is not None and self._keeper.keeps(prompt.known_as)

    # Its own thread: a voice is read from a file, which takes long.

    def _run(self, errand: Callable[[Generator[None, None, None]], Future[None]]) -> None:
        name_thread("readying")
        for name, choices in self.wanted:
            if self._over.is_set():
                return
            try:
                opening = self._stepper.open(choices)
                self._prompts[name] = Prompt.of(opening)
                if self._keeper is not None and self._prompts[name].known_as is not None:
                    self._wait_for(errand(self._pieces(name, opening, self._keeper)))
            except PersonaplexError as error:
                if not self._over.is_set():  # then the engine has ended
                    log.warning("%s cannot be made ready: %s", name, error.sentence)
            except Exception:
                log.exception("%s cannot be made ready", name)

    def _wait_for(self, reading: Future[None]) -> None:
        """One at a time: an opening holds its voice in memory."""
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                return reading.result(LOOK_SECONDS)
        reading.cancel()

    # The tick thread.

    def _pieces(self, name: str, opening: Any, keeper: PromptKeeper) -> Generator[None, None, None]:
        """Reads a prompt that has room until it is known; a visitor may be quicker. What fails is told here."""
        prompt = Prompt.of(opening)
        if self._is_kept(prompt):
            return
        if not keeper.has_room(opening):
            log.info("%s is not made ready: there is no room for its prompt", name)
            return
        try:
            for _ in self.timed(opening, keeper.prepare_pieces(opening)):
                yield
                if self._over.is_set() or self._is_kept(prompt):
                    return
        except Exception as error:
            log_fault(log, error, f"{name} could not be made ready", smaller_plan(self._stepper))
            if is_out_of_memory(error):
                self._over.set()  # the rest is left to those who talk

    def timed(self, opening: Any, pieces: Iterator[None]) -> Iterator[None]:
        """The same pieces; how long they took together is noted, unless the prompt was known and nothing was read."""
        prompt = Prompt.of(opening)
        known = self._is_kept(prompt)
        spent = 0.0
        while True:
            began = self._clock()
            try:
                next(pieces)
            except StopIteration:
                break
            finally:
                spent += self._clock() - began
            yield
        if not known:
            self.speed.note(prompt.positions, spent)
