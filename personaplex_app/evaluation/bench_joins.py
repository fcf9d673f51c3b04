"""Newcomers: how those who talk fare while others come and go, how fast a talk begins, what idling costs.

In: an engine full of calls. Out: answers with and without joins, starts, CPU seconds.
Must not know: models, how figures are shown.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.ports import Stepper
from personaplex_app.evaluation.bench_engine import Crowd, joined, wait_until_idle
from personaplex_app.evaluation.bench_probe import Probe
from personaplex_app.evaluation.bench_report import Joins, Start
from personaplex_app.evaluation.bench_sound import text_of, words_for
from personaplex_app.voices import NO_VOICE

SHORT_POSITIONS, LONG_POSITIONS = 40, 200
STARTS = 3
IDLE_SECONDS = 2.0
TURNOVER_SECONDS = 1.0
_serials = itertools.count(1)


class Prompts:
    """New personas of about so many positions, no two alike."""

    def __init__(self, stepper: Stepper, sampling: SamplingSettings, positions: int) -> None:
        self._stepper, self._sampling, self._probe = stepper, sampling, Probe(stepper)
        self._words = words_for(positions, self._measured)
        self.positions = self._measured(text_of(self._words, 0))

    def _choices(self, text: str) -> Choices:
        return Choices(text, NO_VOICE, self._sampling, 0)

    def _measured(self, text: str) -> int | None:
        return self._probe.prompt_positions(self._stepper.open(self._choices(text)))

    def another(self) -> Choices:
        """A persona that nobody has had yet."""
        return self._choices(text_of(self._words, next(_serials)))


class Turnover:
    """A thread that lets one call leave and a new one join, with a new prompt, every second; the first one stays."""

    def __init__(self, crowd: Crowd, prompts: Prompts) -> None:
        self._crowd, self._prompts = crowd, prompts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="turnover", daemon=True)
        self._fault: Exception | None = None
        self.prime_ms: list[float] = []

    def __enter__(self) -> Turnover:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._fault is not None and error[0] is None:
            raise self._fault

    def _run(self) -> None:
        try:
            while not self._stop.wait(TURNOVER_SECONDS):
                self._one()
        except Exception as fault:
            self._fault = fault

    def _one(self) -> None:
        sessions, engine = self._crowd.sessions, self._crowd.engine
        engine.leave(sessions.pop(1))
        sessions.append(joined(engine, self._prompts.another()))
        self.prime_ms.append(1000 * sessions[-1].prime_seconds)


def measure_joins(crowd: Crowd, seconds: float, prompts: Prompts) -> Joins:
    """So long with nobody coming or going, and as long with one call a second that leaves for a new one."""
    kept = crowd.windows_kept
    quiet = crowd.feed(seconds)
    with Turnover(crowd, prompts) as turnover:
        joining = crowd.feed(seconds)
    return Joins(quiet, joining, len(turnover.prime_ms), prompts.positions, turnover.prime_ms, kept)


def measure_start(engine: Engine, prompts: Prompts, settle: Callable[[], None]) -> Start:
    """On an idle engine: new personas, then each of them again."""
    personas = [prompts.another() for _ in range(STARTS)]
    new, known = ([_start_ms(engine, one, settle) for one in personas] for _ in range(2))
    return Start(prompts.positions, new, known)


def _start_ms(engine: Engine, choices: Choices, settle: Callable[[], None]) -> float:
    began = time.perf_counter()
    session = joined(engine, choices)
    settle()
    took = 1000 * (time.perf_counter() - began)
    engine.leave(session)
    wait_until_idle(engine)
    return took


def measure_idle(seconds: float = IDLE_SECONDS) -> float:
    """CPU seconds of the whole process while nobody talks."""
    began = time.process_time()
    time.sleep(seconds)
    return time.process_time() - began
