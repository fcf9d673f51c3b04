"""A parked state is carried into host memory and back; no step waits for it, and its grant is good all the while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from support.engine import ProbeStepper, join_talking, until
from support.resume import LOST, assert_one_talk, assert_unknown, taken_up, talk_on, talked

from personaplex_app.engine.echo import EchoSaved
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.slots import full_sentence
from personaplex_app.errors import NoCapacity, ServerFault


@dataclass(frozen=True)
class FarSaved(EchoSaved):
    """A saved slot that lies on a device: what moves it is noted, waits at a gate, and may fail."""

    road: Road | None = None
    place: str = "device"

    def to_host(self) -> FarSaved:
        return self._moved("host")

    def to_device(self) -> FarSaved:
        return self._moved("device")

    def _moved(self, place: str) -> FarSaved:
        if place == self.place:
            return self
        assert self.road is not None
        self.road.travels.append((place, threading.current_thread().name))
        assert self.road.gate.wait(20), "a test left the gate closed"
        if self.road.broken:
            raise MemoryError("no room in the host's memory")
        return replace(self, place=place)


@dataclass
class Road:
    """The way between device and host."""

    travels: list[tuple[str, str]] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    broken: bool = False


class FarStepper(ProbeStepper):
    """An echo on a device."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.road = Road()
        self.road.gate.set()
        self.restored: list[FarSaved] = []

    def save(self, slot: int) -> FarSaved:
        saved = super().save(slot)
        return FarSaved(saved.sampling, saved.count, road=self.road)

    def restore(self, slot: int, saved: EchoSaved) -> None:
        assert isinstance(saved, FarSaved)
        self.restored.append(saved)
        super().restore(slot, saved)


@pytest.fixture
def far() -> FarStepper:
    return FarStepper(slots=2)


@pytest.fixture
def away(far: FarStepper) -> Iterator[Engine]:
    with Engine(far) as engine:
        yield engine
        far.road.gate.set()


def test_a_state_is_carried_to_the_host_and_back_beside_the_tick_thread(away: Engine, far: FarStepper) -> None:
    talker = talked(away, 2)
    away.leave(talker.session, LOST, park=True)
    until(lambda: far.road.travels == [("host", "porter")])
    until(lambda: away._lot.look(talker.session.grant).saved.place == "host")
    again = taken_up(away, talker.session.grant)
    assert far.road.travels[1:] == [("device", threading.current_thread().name)]
    assert [saved.place for saved in far.restored] == ["device"] and "tick" not in dict(far.road.travels).values()
    talk_on(again, 2)
    assert_one_talk(again.session)


def test_no_step_waits_for_the_way_and_the_grant_is_good_meanwhile(away: Engine, far: FarStepper) -> None:
    stays, lost = talked(away, 1), talked(away, 2)
    far.road.gate.clear()
    away.leave(lost.session, LOST, park=True)
    until(lambda: far.road.travels)
    talk_on(stays, 5)
    assert away.parked.count == 1 and away.status.free == 1
    again = taken_up(away, lost.session.grant)
    assert [saved.place for saved in far.restored] == ["device"], "it never left"
    talk_on(again, 2)
    far.road.gate.set()
    assert_one_talk(again.session)
    assert away.parked.count == 0 and len(far.road.travels) == 1


def test_a_state_that_does_not_fit_into_the_host_is_dropped_and_counted(away: Engine, far: FarStepper) -> None:
    stays, lost = talked(away, 1), talked(away, 2)
    far.road.broken = True
    away.leave(lost.session, LOST, park=True)
    until(lambda: away.parked.dropped == 1)
    assert_unknown(away, lost.session.grant)
    talk_on(stays, 2)


def test_a_talk_forgotten_on_its_way_stays_forgotten(away: Engine, far: FarStepper) -> None:
    lost = talked(away, 2)
    far.road.gate.clear()
    away.leave(lost.session, LOST, park=True)
    until(lambda: far.road.travels)
    away.forget(lost.session.grant)
    far.road.gate.set()
    assert_unknown(away, lost.session.grant)
    assert away.parked.count == 0


def test_a_state_that_cannot_be_brought_back_is_told_and_stays(away: Engine, far: FarStepper) -> None:
    lost = talked(away, 2)
    away.leave(lost.session, LOST, park=True)
    until(lambda: away.parked.count == 1 and away._lot.look(lost.session.grant).saved.place == "host")
    far.road.broken = True
    with pytest.raises(ServerFault, match="could not be brought back"):
        away.resume(lost.session.grant)
    assert away.status.free == 2 and away.can_resume(lost.session.grant)
    far.road.broken = False
    talk_on(taken_up(away, lost.session.grant), 1)


def test_a_slot_taken_while_a_state_is_on_its_way_back_leaves_the_grant_good(away: Engine, far: FarStepper) -> None:
    lost = talked(away, 2)
    away.leave(lost.session, LOST, park=True)
    until(lambda: away.parked.count == 1 and away._lot.look(lost.session.grant).saved.place == "host")
    far.road.gate.clear()
    refused: list[str] = []

    def come_back() -> None:
        try:
            away.resume(lost.session.grant)
        except NoCapacity as error:
            refused.append(error.sentence)

    late = threading.Thread(target=come_back)
    late.start()
    until(lambda: len(far.road.travels) == 2)
    others = [join_talking(away) for _ in range(2)]
    far.road.gate.set()
    late.join(5)
    assert refused == [full_sentence(2)] and away.can_resume(lost.session.grant)
    away.leave(others[0].session)
    until(lambda: away.status.free == 1)
    assert_one_talk(taken_up(away, lost.session.grant).session)
