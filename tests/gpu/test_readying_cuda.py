"""Prompts made ready on a GPU: what a talk says is the same, it begins at once, and those who talk notice nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from support.engine import Talker, is_talking, pace, until
from support.golden import GREEDY

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import silence
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.facade import Engine
from personaplex_app.model.fast.stepper import FastStepper
from personaplex_app.settings import EngineChoice

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]
TEACHER = Choices("You are a wise and friendly teacher.", "TINY0", GREEDY, 1)
FRAMES = 100
MOST_GROWTH_MS = 5.0
START_SECONDS = 0.3


def _fast(checkpoint: str, cache: Path, precision: str, slots: int) -> FastStepper:
    stepper = build_stepper(EngineChoice(checkpoint, cache, device="cuda", precision=precision, slots=slots))
    assert isinstance(stepper, FastStepper)
    return stepper


def test_a_talk_from_a_prompt_that_was_made_ready_says_the_same(cache_outside_home: Path) -> None:
    stepper = _fast("mini", cache_outside_home, "float32", 1)
    opening = stepper.open(TEACHER)
    said = []
    for ready in (False, True):
        stepper.language.prompts.forget(opening.known_as)  # type: ignore[attr-defined]
        if ready:
            for _ in stepper.prepare_pieces(opening):
                pass
        assert stepper.keeps(opening.known_as) is ready
        stepper.prime(0, opening)
        said.append([stepper.step({0: silence()})[0].tokens.tolist() for _ in range(20)])
        stepper.release(0)
    assert said[0] == said[1] and len({tuple(tokens) for tokens in said[0]}) > 1


def _lateness(engine: Engine, began: list[float]) -> list[float]:
    """How long each of a paced talker's frames waited for its step, the shortest first."""
    session = engine.join(Choices("Be kind.", "none", SamplingSettings(), 1))
    until(lambda: is_talking(session), 20)
    talker, waited = Talker(engine, session), []
    for index in range(FRAMES):
        said, count = time.monotonic(), len(began)
        pace(1, lambda _: talker.say(0.01), [talker])
        if index >= 10:
            waited.append(began[count] - said)
    engine.leave(session)
    until(lambda: engine.status.free == engine.status.slots)
    return sorted(waited)


def test_at_full_size_those_who_talk_notice_nothing_and_whoever_comes_starts_at_once(
    cache_outside_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stepper, began = _fast("random", cache_outside_home, "bfloat16", 4), list[float]()
    step = stepper.step

    def noted(heard):  # type: ignore[no-untyped-def]
        began.append(time.monotonic())
        return step(heard)

    stepper.step = noted  # type: ignore[method-assign]
    wanted = [(str(n), Choices(f"You are number {n}. " * 40, "none", SamplingSettings(), 1)) for n in range(8)]
    engine = Engine(stepper)
    engine.measure()
    with engine:
        alone = _lateness(engine, began)
        engine.readying.wanted = wanted
        engine.readying.start(lambda pieces: engine.errand(pieces, background=True))
        beside = _lateness(engine, began)
        until(lambda: engine.status.prompts_ready >= 3, 20, "some are ready")
        ready = next(choices for name, choices in wanted if engine.readying.of(name).ready)
        session = engine.join(ready)
        until(lambda: is_talking(session), 20)
    late, start = [1000 * waited[-2] for waited in (alone, beside)], session.prime_seconds
    with capsys.disabled():
        print(f"\nlate alone {late[0]:.1f} ms, beside {late[1]:.1f} ms; a known prompt starts in {1000 * start:.0f} ms")
    assert late[1] - late[0] <= MOST_GROWTH_MS and start < START_SECONDS
