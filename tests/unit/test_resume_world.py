"""Joining, starting over, leaving, breaking off, coming back in any order: every talk goes on in its own state alone.

The engine's own parts without its threads: the test does the tick thread's rounds by hand, so any order can be tried.
The echo's state is a count that begins at the talk's seed: it shows whose state a slot was given.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import frame_of

from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine import comeback
from personaplex_app.engine.echo import EchoSaved, EchoStepper
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.scheduler import TickPlan
from personaplex_app.engine.session import Counters, Session, SessionState
from personaplex_app.errors import NoCapacity, SessionEnded

FRAMES_APART = 1 << 12  # seeds of two talks; a float32 holds every multiple
ROOM = 5
RECENT = 9  # talks that something happens to
OFTEN = {
    "join": 1,
    "start_over": 2,
    "say": 8,
    "round": 12,
    "lose": 4,
    "stop": 1,
    "resume": 8,
    "take_over": 1,
    "resume_old": 2,
    "forget": 1,
    "keep": 1,
    "wait": 1,
}
OPERATIONS = [name for name, times in OFTEN.items() for _ in range(times)]
RANDOM_OPERATIONS = 45_000


@dataclass
class Talk:
    """What its owner knows of a talk."""

    seed: int
    session: Session
    old_grants: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def live(self) -> bool:
        return self.session.state is not SessionState.ENDED


class World:
    """Owners of talks and an engine whose rounds are made by hand."""

    def __init__(self, slots: int) -> None:
        self.now = 0.0
        self.stepper = EchoStepper(slots)
        self.engine = Engine(self.stepper, clock=lambda: self.now, parking_bytes=ROOM * EchoSaved.bytes)
        self.talks: list[Talk] = []
        self.part, self.plan = 0, TickPlan()
        self.resumed = self.refused = self.full = self.begun_anew = 0

    def play(self, name: str, pick: int) -> None:
        getattr(self, name)(pick)
        self.check()

    def _pick(self, pick: int, live: bool | None = None) -> Talk | None:
        talks = [talk for talk in self.talks[-RECENT:] if live is None or talk.live is live]
        return talks[pick % len(talks)] if talks else None

    def join(self, pick: int) -> None:
        seed = len(self.talks) * FRAMES_APART
        if self.engine.status.free:
            session = self.engine.join(Choices("", "none", SamplingSettings(), seed))
            self.talks.append(Talk(seed, session))

    def start_over(self, pick: int) -> None:
        """Another talk in the same slot, with a count of its own; nothing is left of the one before."""
        talk = self._pick(pick, live=True if pick % 4 else None)
        if talk is None:
            return
        before, free = talk.session, self.engine.status.free
        seed = len(self.talks) * FRAMES_APART
        choices = Choices("", "none", SamplingSettings(), seed)
        if not talk.live:
            with pytest.raises(SessionEnded):
                self.engine.start_over(before, choices)
            return
        fresh = self.engine.start_over(before, choices)
        assert fresh.tenancy.slot == before.tenancy.slot and fresh.tenancy.generation == before.tenancy.generation + 1
        assert not talk.live and not self.engine.can_resume(before.grant) and self.engine.status.free == free
        assert fresh.lasted_seconds == pytest.approx(before.lasted_seconds)
        self.talks.append(Talk(seed, fresh))
        self.begun_anew += 1

    def say(self, pick: int) -> None:
        if talk := self._pick(pick, live=True):
            self.engine.hear(talk.session, frame_of(talk.seed))

    def round(self, pick: int) -> None:
        """What the tick thread does, as much as comes before the next operation; the next round goes on from there."""
        loop = self.engine._loop
        for _ in range(1 + pick % 6):
            (loop._let_go, loop._prime_newcomer, self.plan_tick, self.tick)[self.part]()
            self.part = (self.part + 1) % 4
        self.now += 0.08

    def plan_tick(self) -> None:
        self.plan = self.engine._loop._plan()

    def tick(self) -> None:
        if self.plan.ready:
            self.engine._loop._tick(self.plan)

    def lose(self, pick: int) -> None:
        if talk := self._pick(pick, live=True):
            self.engine.leave(talk.session, "lost", park=True)

    def stop(self, pick: int) -> None:
        if talk := self._pick(pick):
            self.engine.leave(talk.session)
            talk.stopped = True
            assert talk.live is False and not self.engine.can_resume(talk.session.grant)

    def resume(self, pick: int) -> None:
        if talk := self._pick(pick, live=False):
            self._try(talk)

    def take_over(self, pick: int) -> None:
        if talk := self._pick(pick, live=True):
            self._try(talk)

    def _try(self, talk: Talk) -> None:
        before, could = talk.session, self.engine.can_resume(talk.session.grant)
        try:
            talk.session = self.engine.resume(before.grant)
        except NoCapacity:
            assert could and self.engine.can_resume(before.grant), "the grant stays"
            self.full += 1
        except SessionEnded:
            assert not could
            self.refused += 1
        else:
            assert could and not talk.stopped
            talk.old_grants.append(before.grant)
            self.resumed += 1
            assert talk.session.text_tokens == before.text_tokens

    def resume_old(self, pick: int) -> None:
        """A grant that was spent is worth nothing, whatever has become of the talk."""
        talk = self._pick(pick)
        if talk and talk.old_grants:
            grant = talk.old_grants[pick % len(talk.old_grants)]
            assert not self.engine.can_resume(grant)
            with pytest.raises(SessionEnded):
                self.engine.resume(grant)

    def forget(self, pick: int) -> None:
        if talk := self._pick(pick, live=False):
            self.engine.forget(talk.session.grant)
            assert not self.engine.can_resume(talk.session.grant)

    def keep(self, pick: int) -> None:
        if talk := self._pick(pick):
            self.engine.keep(talk.session.grant)

    def wait(self, pick: int) -> None:
        self.now += pick % 12

    def check(self) -> None:
        """Slots, sessions and grants add up, and every talk has counted on from its own seed without a gap.

        Whoever was started over sits in the slot until it is wiped; all but the last of a slot are over.
        """
        last = {session.tenancy.slot: session for session in self.engine._roster.sessions}
        for session in self.engine._roster.sessions:
            assert session is last[session.tenancy.slot] or session.state is SessionState.ENDED
        assert self.engine.status.free + len(last) == self.stepper.slots
        assert self.engine.parked.bytes <= ROOM * EchoSaved.bytes
        for talk in self.talks[-RECENT:]:
            self.check_talk(talk)

    def check_talk(self, talk: Talk) -> None:
        tokens = talk.session.text_tokens
        assert tokens == list(range(talk.seed, talk.seed + len(tokens)))
        assert talk.session.counters.stepped == len(tokens)
        if talk.session.state is SessionState.PRIMING and not talk.session.resumed:
            assert talk.session.counters == Counters(), "a step of the talk before is none of its own"
        while (frame := talk.session.take_spoken()) is not None:
            assert float(frame.pcm[0]) in (0.0, talk.seed)


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A talk that is taken over leaves its slot in the next round, which is made by hand."""
    monkeypatch.setattr(comeback, "TAKE_OVER_SECONDS", 0.0)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 30)), min_size=20, max_size=80),
)
def test_every_talk_goes_on_in_its_own_state(slots: int, operations: list[tuple[str, int]]) -> None:
    world = World(slots)
    for name, pick in operations:
        world.play(name, pick)


def test_every_talk_goes_on_in_its_own_state_through_many_operations() -> None:
    chance = random.Random(20261201)
    world = World(3)
    for _ in range(RANDOM_OPERATIONS):
        world.play(chance.choice(OPERATIONS), chance.randrange(1 << 16))
    for talk in world.talks:
        world.check_talk(talk)
    went_on = [talk for talk in world.talks if talk.old_grants and len(talk.session.text_tokens) > 3]
    parked = world.engine.parked
    assert world.begun_anew > 300
    assert world.resumed > 500 and world.refused > 500 and world.full > 100 and len(went_on) > 50
    assert parked.dropped > 10 and parked.expired > 30
