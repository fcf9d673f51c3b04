"""The engine with the real stepper: what a session says is what `render` says for the same sound alone.

Alone in the same slot: the random miniature's codec has entries 1e-6 apart, and a matrix's rows round by their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from support.engine import drained, is_over, is_talking, until
from support.golden import GREEDY

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import FRAME_SAMPLES, Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.session import Session
from personaplex_app.engine.talk_queues import HEARD_FRAMES
from personaplex_app.model.stepper import Opening, SpeechStepper, Step
from personaplex_app.offline import Rendered, render
from personaplex_app.settings import EngineChoice

SLOTS = 2
TEACHER = Choices("You are a wise and friendly teacher.", "TINY0", GREEDY, 1)
ASTRONAUT = Choices("You are an astronaut on a Mars mission. Your name is Alex.", "none", GREEDY, 2)


@pytest.fixture(scope="module")
def stepper(cache_outside_home: Path) -> SpeechStepper:
    return build_stepper(EngineChoice("mini", cache_outside_home, device="cpu", slots=SLOTS))


def _sound(seed: int, frames: int) -> Pcm:
    return (np.random.default_rng(seed).standard_normal((frames, FRAME_SAMPLES)) * 0.1).astype(np.float32)


@dataclass(frozen=True)
class InSlot:
    """What `render` needs of a stepper, in another slot than 0."""

    stepper: SpeechStepper
    slot: int

    def prime(self, slot: int, opening: Opening) -> None:
        self.stepper.prime(self.slot, opening)

    def step(self, heard: dict[int, Pcm]) -> dict[int, Step]:
        return {0: self.stepper.step({self.slot: heard[0]})[self.slot]}

    def text(self, token: int) -> bytes:
        return self.stepper.text(token)


@dataclass
class Visitor:
    """Says its frames as fast as they are taken, and keeps what comes back."""

    engine: Engine
    session: Session
    sound: Pcm
    said: int = 0
    spoken: list[Pcm] = field(default_factory=list)

    def go_on(self) -> None:
        """One frame more where the queue has room, so that none is ever dropped."""
        if self.said < len(self.sound) and self.session.queues.waiting[0] < HEARD_FRAMES:
            self.engine.hear(self.session, self.sound[self.said])
            self.said += 1
        self.spoken += [frame.pcm for frame in drained(self.session)]

    @property
    def done(self) -> bool:
        return len(self.spoken) == len(self.sound)


@pytest.fixture
def engine(stepper: SpeechStepper) -> Iterator[Engine]:
    """Its clock stands still: it ticks when all who talk have a frame, and fills in no silence."""
    with Engine(stepper, clock=lambda: 0.0) as engine:
        yield engine


def _join(engine: Engine, choices: Choices, sound: Pcm) -> Visitor:
    visitor = Visitor(engine, engine.join(choices), sound)
    until(lambda: is_talking(visitor.session), 20, "priming")
    return visitor


def _until_done(visitor: Visitor, beside: Visitor | None = None) -> None:
    def go_on() -> bool:
        for each in (visitor, beside):
            if each is not None:
                each.go_on()
        return visitor.done

    until(go_on, 60, "all frames answered")


def _alone(stepper: SpeechStepper, visitor: Visitor) -> Rendered:
    slot = InSlot(stepper, visitor.session.tenancy.slot)
    return render(slot, stepper.open(visitor.session.choices), visitor.sound.reshape(-1))


def _assert_same(visitor: Visitor, alone: Rendered) -> None:
    assert len(set(alone.tokens[0].tolist())) > 1, "the tokens say something"
    counters = visitor.session.counters
    assert (counters.heard_dropped, counters.spoken_dropped, counters.silence_filled) == (0, 0, 0)
    assert visitor.session.text_tokens == alone.tokens[0].tolist()
    assert np.array_equal(np.concatenate(visitor.spoken), alone.pcm)
    assert visitor.session.transcript.text == alone.transcript.text


def test_two_talks_at_once_say_what_each_says_alone(stepper: SpeechStepper, engine: Engine) -> None:
    """The first talks before, beside and after the second, who comes later and leaves earlier."""
    first = _join(engine, TEACHER, _sound(1, 36))
    first.sound, rest = first.sound[:10], first.sound
    _until_done(first)
    second = _join(engine, ASTRONAUT, _sound(2, 14))
    first.sound = rest
    _until_done(second, beside=first)
    assert 10 < len(first.spoken) < 36, "they did talk at once"
    engine.leave(second.session)
    until(lambda: engine.status.free == 1)
    _until_done(first)
    engine.stop()
    for visitor in (first, second):
        _assert_same(visitor, _alone(stepper, visitor))


def test_a_slot_s_next_tenant_says_what_it_says_in_a_fresh_one(stepper: SpeechStepper, engine: Engine) -> None:
    leaver = _join(engine, TEACHER, _sound(3, 8))
    _until_done(leaver)
    engine.leave(leaver.session)
    until(lambda: engine.status.free == SLOTS and is_over(leaver.session))
    follower = _join(engine, ASTRONAUT, _sound(4, 12))
    assert follower.session.tenancy.slot == leaver.session.tenancy.slot
    _until_done(follower)
    engine.stop()
    _assert_same(follower, _alone(stepper, follower))


@pytest.mark.parametrize("sampling", [GREEDY, SamplingSettings()], ids=["greedy", "seeded"])
def test_a_talk_that_is_started_over_says_what_a_fresh_one_says(
    stepper: SpeechStepper, engine: Engine, sampling: SamplingSettings
) -> None:
    """Beside another, whose prompt and words nothing of it touches; from the midst of a talk and of a prompt."""
    talk = _join(engine, TEACHER, _sound(21, 9))
    other = _join(engine, ASTRONAUT, _sound(22, 60))
    _until_done(talk, beside=other)
    anew = replace(ASTRONAUT, sampling=sampling, seed=9)
    engine.start_over(talk.session, TEACHER)
    fresh = Visitor(engine, engine.start_over(engine._roster.sessions[-1], anew), _sound(23, 12))
    until(lambda: is_talking(fresh.session), 20, "priming")
    assert fresh.session.tenancy.slot == talk.session.tenancy.slot and fresh.session.tenancy.generation > 2
    _until_done(fresh, beside=other)
    engine.stop()
    _assert_same(fresh, _alone(stepper, fresh))
    other.sound = other.sound[: len(other.session.text_tokens)]
    assert len(other.sound) > 15 and other.session.text_tokens == _alone(stepper, other).tokens[0].tolist()


@pytest.mark.parametrize("sampling", [GREEDY, SamplingSettings()], ids=["greedy", "seeded"])
def test_a_talk_that_broke_off_twice_says_what_it_says_unbroken(
    stepper: SpeechStepper, engine: Engine, sampling: SamplingSettings
) -> None:
    """Beside another, and each time after a stranger has used its slot: the same slot, as a row rounds by its place."""
    talk = _join(engine, replace(TEACHER, sampling=sampling), _sound(5, 12))
    other = _join(engine, ASTRONAUT, _sound(6, 60))
    for seed in (7, 8):
        _until_done(talk, beside=other)
        engine.leave(talk.session, "lost", park=True)
        until(lambda: engine.status.free == 1)
        stranger = _join(engine, replace(ASTRONAUT, seed=seed), _sound(seed, 3))
        _until_done(stranger, beside=other)
        engine.leave(stranger.session)
        until(lambda: engine.status.free == 1)
        talk.session = engine.resume(talk.session.grant)
        until(lambda: is_talking(talk.session), 20, "restoring")
        assert talk.session.tenancy.slot == stranger.session.tenancy.slot == 0
        talk.sound = np.concatenate([talk.sound, _sound(seed + 10, 12)])
    _until_done(talk, beside=other)
    engine.stop()
    _assert_same(talk, _alone(stepper, talk))
    other.sound = other.sound[: len(other.session.text_tokens)]
    assert len(other.sound) > 36 and other.session.text_tokens == _alone(stepper, other).tokens[0].tolist()
