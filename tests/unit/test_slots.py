"""Slots: who holds which, that a tenancy which is over can do nothing, and that no late result finds a new tenant.

The last is shown on a small world of the pure engine pieces (slot table and sessions) in which joining, leaving, steps
and late deliveries come in any order; every frame carries the number of the tenancy that heard it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import CHOICES, drained, frame_of

from personaplex_app.engine.session import Session, SessionState
from personaplex_app.engine.slots import SlotState, SlotTable, Tenancy, full_sentence
from personaplex_app.errors import NoCapacity

OFTEN = {
    "join": 2,
    "go_live": 3,
    "hear": 6,
    "step": 4,
    "leave": 1,
    "drain": 3,
    "release": 3,
    "deliver": 2,
    "start_over": 1,
}
OPERATIONS = [name for name, times in OFTEN.items() for _ in range(times)]
IN_A_ROW = {
    "enter": ("join", "go_live"),
    "speak": ("hear", "step"),
    "go": ("leave", "drain", "release"),
    "anew": ("start_over", "go_live"),
}
RANDOM_OPERATIONS = 100_000
MOST_SECONDS = 60.0


def _tenancy_in(table: SlotTable, state: SlotState) -> Tenancy:
    """A tenancy brought to a state on the way that the tick thread takes."""
    tenancy = table.claim()
    steps = {SlotState.PRIMING: 0, SlotState.LIVE: 1, SlotState.DRAINING: 2, SlotState.FREE: 3}[state]
    for move in (table.go_live, table.drain, table.release)[:steps]:
        assert move(tenancy)
    assert table.state(tenancy) is state
    return tenancy


def test_a_tenancy_s_life() -> None:
    table = SlotTable(2)
    assert (table.total, table.free) == (2, 2)
    tenancy = table.claim()
    assert table.state(tenancy) is SlotState.PRIMING and table.free == 1
    assert table.go_live(tenancy) and table.state(tenancy) is SlotState.LIVE
    assert table.drain(tenancy) and table.state(tenancy) is SlotState.DRAINING and table.free == 1
    assert table.release(tenancy) and table.state(tenancy) is SlotState.FREE and table.free == 2


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        (SlotState.PRIMING, {"go_live", "drain"}),
        (SlotState.LIVE, {"drain"}),
        (SlotState.DRAINING, {"release"}),
        (SlotState.FREE, set()),
    ],
)
def test_only_the_moves_of_a_state_are_made(state: SlotState, allowed: set[str]) -> None:
    for move in ("go_live", "drain", "release"):
        table = SlotTable(1)
        tenancy = _tenancy_in(table, state)
        assert getattr(table, move)(tenancy) is (move in allowed)
        assert (table.state(tenancy) is state) is (move not in allowed)


@pytest.mark.parametrize("state", [SlotState.PRIMING, SlotState.LIVE, SlotState.DRAINING])
def test_a_tenancy_that_is_over_can_do_nothing(state: SlotState) -> None:
    table = SlotTable(1)
    old = _tenancy_in(table, SlotState.FREE)
    new = _tenancy_in(table, state)
    assert old.slot == new.slot and old != new
    assert not any(move(old) for move in (table.go_live, table.drain, table.release))
    assert table.state(old) is SlotState.FREE and table.state(new) is state


@pytest.mark.parametrize("state", [SlotState.PRIMING, SlotState.LIVE])
def test_a_slot_that_is_renewed_is_never_free_and_its_old_tenancy_is_over(state: SlotState) -> None:
    table = SlotTable(1)
    old = _tenancy_in(table, state)
    new = table.renew(old)
    assert new == Tenancy(old.slot, old.generation + 1) and table.free == 0
    assert (table.state(old), table.state(new)) == (SlotState.FREE, SlotState.PRIMING)
    assert not any(move(old) for move in (table.go_live, table.drain, table.release)) and table.renew(old) is None
    assert table.go_live(new) and table.drain(new) and table.release(new) and table.free == 1


@pytest.mark.parametrize("state", [SlotState.DRAINING, SlotState.FREE])
def test_what_is_drained_or_over_is_not_renewed(state: SlotState) -> None:
    table = SlotTable(1)
    tenancy = _tenancy_in(table, state)
    assert table.renew(tenancy) is None and table.state(tenancy) is state


def test_a_full_house_says_so_and_gives_the_lowest_slot_when_one_is_free() -> None:
    table = SlotTable(3)
    held = [table.claim() for _ in range(3)]
    assert [tenancy.slot for tenancy in held] == [0, 1, 2]
    with pytest.raises(NoCapacity, match="All 3 lines are taken right now"):
        table.claim()
    table.drain(held[1])
    with pytest.raises(NoCapacity):
        table.claim()
    table.release(held[1])
    assert table.claim() == Tenancy(1, 2)


def test_one_line_is_not_called_all_lines() -> None:
    assert "one line only" in full_sentence(1) and "All" not in full_sentence(1)
    table = SlotTable(1)
    table.claim()
    with pytest.raises(NoCapacity) as refused:
        table.claim()
    assert refused.value.sentence == full_sentence(1) and refused.value.code == "no_capacity"


class World:
    """Sessions in slots, steps on their way, and whoever sits in a slot when a result comes back."""

    def __init__(self, slots: int) -> None:
        self.table = SlotTable(slots)
        self.sitting: dict[int, Session] = {}
        self.under_way: list[tuple[Tenancy, float]] = []
        self.numbers: dict[Tenancy, float] = {}
        self.delivered = self.late = self.renewed = 0

    def play(self, operations: Iterable[tuple[str, int]]) -> None:
        for name, pick in operations:
            for step in IN_A_ROW.get(name, (name,)):
                getattr(self, step)(pick)

    def _pick(self, pick: int) -> Session | None:
        sessions = list(self.sitting.values())
        return sessions[pick % len(sessions)] if sessions else None

    def join(self, pick: int) -> None:
        if not self.table.free:
            with pytest.raises(NoCapacity):
                self.table.claim()
            return
        session = Session(self.table.claim(), CHOICES, None)
        assert session.tenancy.slot not in self.sitting, "a slot is given to one at a time"
        self._seat(session)

    def _seat(self, session: Session) -> None:
        self.sitting[session.tenancy.slot] = session
        self.numbers[session.tenancy] = float(len(self.numbers) + 1)

    def start_over(self, pick: int) -> None:
        session = self._pick(pick)
        tenancy = self.table.renew(session.tenancy) if session and session.end("started over") else None
        if tenancy is not None:
            self._seat(Session(tenancy, CHOICES, None))
            self.renewed += 1

    def go_live(self, pick: int) -> None:
        if (session := self._pick(pick)) and self.table.go_live(session.tenancy):
            session.begin()

    def hear(self, pick: int) -> None:
        if session := self._pick(pick):
            session.hear(frame_of(self.numbers[session.tenancy]))

    def step(self, pick: int) -> None:
        session = self._pick(pick)
        if session and session.state is SessionState.TALKING and session.queues.waiting[0]:
            self.under_way.append((session.tenancy, float(session.queues.take_heard()[0])))

    def leave(self, pick: int) -> None:
        if session := self._pick(pick):
            session.end("left")

    def drain(self, pick: int) -> None:
        if (session := self._pick(pick)) and session.state is SessionState.ENDED:
            self.table.drain(session.tenancy)

    def release(self, pick: int) -> None:
        if (session := self._pick(pick)) and self.table.release(session.tenancy):
            del self.sitting[session.tenancy.slot]

    def deliver(self, pick: int) -> None:
        """A result comes back, however late, and goes to whoever sits in its slot if its tenancy still holds."""
        if not self.under_way:
            return
        tenancy, value = self.under_way.pop(pick % len(self.under_way))
        if self.table.state(tenancy) is not SlotState.LIVE:
            self.late += 1
            return
        session = self.sitting[tenancy.slot]
        session.deliver(frame_of(value), 0, b"")
        self.delivered += 1
        assert [float(frame.pcm[0]) for frame in drained(session)] == [self.numbers[session.tenancy]]


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from([*IN_A_ROW, *IN_A_ROW, *OFTEN]), st.integers(0, 7)), min_size=25, max_size=80),
)
def test_a_late_result_reaches_no_new_tenant(slots: int, operations: list[tuple[str, int]]) -> None:
    world = World(slots)
    world.play(operations)
    assert world.table.free + len(world.sitting) == slots


def test_no_late_result_in_a_hundred_thousand_operations() -> None:
    chance = random.Random(20261130)
    world = World(4)
    began = time.monotonic()
    world.play((chance.choice(OPERATIONS), chance.randrange(1 << 16)) for _ in range(RANDOM_OPERATIONS))
    assert time.monotonic() - began < MOST_SECONDS
    assert world.delivered > 2000 and world.late > 500 and len(world.numbers) > 2000
    assert world.renewed > 500
