"""The parking lot: bounded in bytes, the oldest goes first; bounded in time; a grant is good for one.

Grants of any order of operations are compared with a plain list of what ought to be there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import CHOICES

from personaplex_app.engine.loop_guard import LoopGuard
from personaplex_app.engine.onlookers import Onlookers
from personaplex_app.engine.parking import Parked, ParkedStatus, ParkingLot
from personaplex_app.engine.talk_sampling import TalkSampling
from personaplex_app.engine.talk_so_far import Counters, TalkSoFar
from personaplex_app.records.transcript import Transcript

MOST_BYTES = 100
GRANT_SECONDS = 25.0


@dataclass(frozen=True)
class Box:
    """A saved slot of some size."""

    bytes: int
    place: str = "device"

    def to_host(self) -> Box:
        return Box(self.bytes, "host")

    def to_device(self) -> Box:
        return self


def talk(size: int) -> Parked:
    so_far = TalkSoFar(CHOICES, TalkSampling(CHOICES.sampling, LoopGuard()), Counters(), Transcript(), [], Onlookers())
    return Parked(Box(size), so_far)


@dataclass
class Yard:
    """A lot with its clock in the hand."""

    now: float = 1000.0
    lot: ParkingLot = field(init=False)

    def __post_init__(self) -> None:
        self.lot = ParkingLot(MOST_BYTES, GRANT_SECONDS, lambda: self.now)


@pytest.fixture
def yard() -> Yard:
    return Yard()


def test_a_grant_is_good_for_one(yard: Yard) -> None:
    parked = talk(10)
    assert yard.lot.put("a", parked) and yard.lot.look("a") is parked
    assert yard.lot.status == ParkedStatus(1, 10, 0, 0)
    assert yard.lot.take("a") is parked and yard.lot.take("a") is None and yard.lot.look("a") is None
    assert yard.lot.status == ParkedStatus(0, 0, 0, 0)


def test_the_oldest_go_first_and_no_more_than_must(yard: Yard) -> None:
    for grant in "abcd":
        assert yard.lot.put(grant, talk(25))
    assert yard.lot.put("e", talk(30))
    assert [grant for grant in "abcde" if yard.lot.look(grant)] == ["c", "d", "e"]
    assert yard.lot.status == ParkedStatus(3, 80, 2, 0)


def test_a_talk_larger_than_the_whole_lot_is_not_kept_and_drives_nobody_out(yard: Yard) -> None:
    assert yard.lot.put("a", talk(MOST_BYTES))
    assert not yard.lot.put("b", talk(MOST_BYTES + 1))
    assert yard.lot.look("a") and not yard.lot.look("b") and yard.lot.status.dropped == 1


def test_a_grant_runs_out(yard: Yard) -> None:
    yard.lot.put("a", talk(10))
    yard.now += GRANT_SECONDS - 0.01
    assert yard.lot.look("a")
    yard.now += 0.02
    assert yard.lot.take("a") is None and not yard.lot.keep("a")
    assert yard.lot.status == ParkedStatus(0, 0, 0, 1)


def test_what_ran_out_is_let_go_before_anybody_is_dropped(yard: Yard) -> None:
    yard.lot.put("old", talk(50))
    yard.now += 20
    yard.lot.put("young", talk(50))
    yard.now += 10
    yard.lot.put("new", talk(50))
    assert yard.lot.look("young") and yard.lot.look("new")
    assert yard.lot.status == ParkedStatus(2, 100, 0, 1)


def test_an_owner_who_waits_in_line_keeps_the_talk_but_not_its_place(yard: Yard) -> None:
    yard.lot.put("kept", talk(50))
    yard.lot.put("left", talk(10))
    for _ in range(10):
        yard.now += 20
        assert yard.lot.keep("kept")
    assert yard.lot.look("kept") and not yard.lot.look("left")
    yard.lot.put("b", talk(50))
    yard.lot.put("c", talk(10))
    assert not yard.lot.look("kept") and yard.lot.look("b"), "parked first, dropped first"


def test_a_state_that_moved_is_found_where_it_lies_now(yard: Yard) -> None:
    parked = talk(10)
    yard.lot.put("a", parked)
    assert yard.lot.swap("a", parked.saved.to_host())
    found = yard.lot.take("a")
    assert found is not None and found.saved == Box(10, "host") and found.so_far is parked.so_far
    assert not yard.lot.swap("a", Box(10)) and yard.lot.look("a") is None


def test_dropping_counts_and_forgetting_does_not(yard: Yard) -> None:
    for grant in "abc":
        yard.lot.put(grant, talk(10))
    yard.lot.drop("a")
    yard.lot.drop("a")
    yard.lot.forget("b")
    yard.lot.forget("nobody")
    assert yard.lot.status == ParkedStatus(1, 10, 1, 0)
    yard.lot.clear()
    assert yard.lot.status == ParkedStatus(0, 0, 1, 0)


OPERATIONS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 8), st.integers(0, MOST_BYTES + 10)),
    st.tuples(st.sampled_from(["take", "keep", "forget", "look"]), st.integers(0, 8), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 30), st.just(0)),
)


class Ledger:
    """What ought to be in the lot, oldest first: (grant, bytes, until)."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, int, float]] = []

    def find(self, grant: str) -> tuple[str, int, float] | None:
        return next((entry for entry in self.entries if entry[0] == grant), None)

    def put(self, grant: str, size: int, until: float) -> None:
        if size > MOST_BYTES:
            return
        while sum(entry[1] for entry in self.entries) + size > MOST_BYTES:
            self.entries.pop(0)
        self.entries.append((grant, size, until))


@settings(max_examples=300, deadline=None)
@given(st.lists(OPERATIONS, max_size=60))
def test_never_above_its_bound_and_never_without_whom_it_ought_to_hold(operations: list[tuple[str, int, int]]) -> None:
    yard, ledger = Yard(), Ledger()
    for count, (name, pick, size) in enumerate(operations):
        grant = str(pick)
        ledger.entries = [entry for entry in ledger.entries if entry[2] > yard.now]
        entry = ledger.find(grant)
        if name == "put":
            fresh = f"{pick}:{count}"  # a grant is never given twice
            yard.lot.put(fresh, talk(size))
            ledger.put(fresh, size, yard.now + GRANT_SECONDS)
        elif name == "wait":
            yard.now += pick
        else:
            grant = ledger.entries[pick % len(ledger.entries)][0] if ledger.entries else grant
            entry = ledger.find(grant)
            found = getattr(yard.lot, name)(grant)
            if name in ("take", "look"):
                assert (found.saved.bytes if found else None) == (entry[1] if entry else None)
            if name in ("take", "forget") and entry:
                ledger.entries.remove(entry)
            if name == "keep" and entry:
                at = ledger.entries.index(entry)
                ledger.entries[at] = (grant, entry[1], yard.now + GRANT_SECONDS)
        ledger.entries = [entry for entry in ledger.entries if entry[2] > yard.now]
        status = yard.lot.status
        assert status.bytes == sum(entry[1] for entry in ledger.entries) <= MOST_BYTES
        assert status.count == len(ledger.entries)
