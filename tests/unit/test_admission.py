"""Tickets: limits in words, a line that keeps its order, slots that are promised or go to the first sound."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.gate import Gate

from personaplex_app.engine.admission import ALREADY_TALKING, QUICKER, Limits, Ticket
from personaplex_app.engine.admission import TicketState as State
from personaplex_app.engine.waits import FIRST_GUESS_SECONDS
from personaplex_app.errors import NoCapacity


def _refused(call: Any, *args: Any) -> NoCapacity:
    with pytest.raises(NoCapacity) as refused:
        call(*args)
    return refused.value


@pytest.fixture
def gate() -> Gate:
    """One slot."""
    return Gate(slots=1)


@pytest.fixture
def full(gate: Gate) -> Gate:
    """One slot, and somebody talks in it."""
    gate.talk("first")
    return gate


# At once.


def test_a_free_house_admits_at_once_and_the_slot_goes_with_the_sound(gate: Gate) -> None:
    ticket = gate.ask("anna")
    assert (ticket.state, gate.admission.place(ticket), gate.admission.waiting) == (State.ADMITTED, 0, [])
    assert gate.admission.available == 1, "the ticket alone holds nothing"
    gate.enter(ticket)
    assert ticket.state is State.LIVE and gate.admission.available == 0


def test_two_tickets_that_never_connect_shut_nobody_out(gate: Gate) -> None:
    idle = [gate.ask("a"), gate.ask("b")]
    honest = gate.ask("c")
    assert {ticket.state for ticket in (*idle, honest)} == {State.ADMITTED}
    gate.enter(honest)
    assert honest.state is State.LIVE
    gate.wait(gate.limits.connect_seconds)
    assert [(ticket.state, ticket.over_because) for ticket in idle] == [(State.OVER, "not_connected")] * 2


def test_who_is_too_late_with_the_sound_is_first_in_the_line(gate: Gate) -> None:
    slow, quick = gate.ask("slow"), gate.ask("quick")
    gate.enter(quick)
    behind = gate.ask("behind")
    refused = _refused(gate.admission.enter, slow)
    assert (refused.sentence, refused.code) == (QUICKER, "no_ticket")
    assert gate.admission.waiting == [slow, behind]
    gate.leave(quick)
    assert slow.state is State.CALLED


def test_secrets_are_long_and_never_the_same(gate: Gate) -> None:
    tickets = [gate.ask(f"visitor {number}").secret for number in range(50)]
    assert len(set(tickets)) == 50 and min(map(len, tickets)) >= 32


# Limits.


def test_a_visitor_has_two_tickets_at_most(gate: Gate) -> None:
    first, _ = gate.ask("anna"), gate.ask("anna")
    third = _refused(gate.ask, "anna")
    assert third.code == "too_many_tickets" and "two windows" in third.sentence
    gate.leave(first)
    gate.ask("anna")
    gate.ask("bert")


def test_a_visitor_talks_once(gate: Gate) -> None:
    gate.slots = 2
    talking = gate.talk("anna")
    other = gate.ask("anna")
    assert other.state is State.WAITING and gate.admission.already_talking(other)
    passing = gate.ask("bert")
    assert passing.state is State.ADMITTED, "who may not enter holds nobody up"
    gate.leave(talking)
    assert other.state is State.CALLED


def test_two_windows_that_connect_at_once_become_one_talk(gate: Gate) -> None:
    gate.slots = 2
    windows = [gate.ask("anna"), gate.ask("anna")]
    gate.enter(windows[0])
    refused = _refused(gate.admission.enter, windows[1])
    assert refused.sentence == ALREADY_TALKING and windows[1].state is State.WAITING


def test_a_visitor_joins_six_times_a_minute(gate: Gate) -> None:
    for _ in range(6):
        gate.leave(gate.ask("anna"))
        gate.now += 1
    refused = _refused(gate.ask, "anna")
    assert refused.code == "too_many_joins" and "Try again in 54 s." in refused.sentence
    gate.leave(gate.ask("bert"))
    gate.now += 54
    gate.leave(gate.ask("anna"))


def test_an_address_joins_sixty_times_a_minute_whoever_comes(gate: Gate) -> None:
    for number in range(60):
        gate.leave(gate.ask(f"visitor {number}", address="home"))
    assert _refused(gate.ask, "one more", "home").code == "too_many_joins"
    gate.ask("one more", address="office")
    gate.now += 60
    gate.ask("another", address="home")


def test_what_is_refused_is_no_join(full: Gate) -> None:
    full.ask("anna"), full.ask("anna")
    for _ in range(20):
        assert _refused(full.ask, "anna").code == "too_many_tickets"


def test_the_line_has_an_end() -> None:
    gate = Gate(slots=1, limits=Limits(line_length=3))
    gate.talk("first")
    for number in range(3):
        gate.ask(f"visitor {number}")
    refused = _refused(gate.ask, "late")
    assert refused.code == "no_capacity" and refused.sentence == "3 people are waiting already. Try again later."


# The line.


def test_the_line_keeps_its_order(full: Gate) -> None:
    line = [full.ask(name) for name in "abc"]
    assert [full.admission.place(ticket) for ticket in line] == [1, 2, 3]
    full.leave(line[1])
    assert [full.admission.place(ticket) for ticket in line] == [1, 0, 2]


def test_the_estimate_grows_with_the_place_and_shrinks_with_time(full: Gate) -> None:
    line = [full.ask(name) for name in "abc"]
    estimates = [full.admission.estimate_seconds(ticket) for ticket in line]
    assert estimates == [FIRST_GUESS_SECONDS * place for place in (1, 2, 3)]
    full.now += 100
    assert full.admission.estimate_seconds(line[0]) == FIRST_GUESS_SECONDS - 100


def test_the_first_is_called_and_has_thirty_seconds(full: Gate) -> None:
    talking, first, second = full.tickets[0], full.ask("a"), full.ask("b")
    full.leave(talking)
    assert (first.state, first.promised, first.deadline - full.now) == (State.CALLED, True, 30.0)
    assert second.state is State.WAITING and full.admission.place(second) == 1
    full.admission.answer(first)
    assert first.state is State.ADMITTED and first.promised
    full.enter(first)
    assert first.state is State.LIVE and not first.promised


def test_who_does_not_answer_is_over_and_the_next_is_called(full: Gate) -> None:
    talking, absent, present = full.tickets[0], full.ask("a"), full.ask("b")
    full.leave(talking)
    full.wait(29.9)
    assert absent.state is State.CALLED and present.state is State.WAITING
    full.wait(0.1)
    assert (absent.state, absent.over_because) == (State.OVER, "no_answer")
    assert (present.state, present.deadline) == (State.CALLED, full.now + 30)
    full.admission.answer(present)
    full.wait(full.limits.connect_seconds)
    assert (present.state, present.over_because) == (State.OVER, "not_connected")


def test_a_promised_slot_is_nobody_else_s(full: Gate) -> None:
    talking, called = full.tickets[0], full.ask("a")
    full.leave(talking)
    late = full.ask("late")
    assert (called.state, late.state, full.admission.available) == (State.CALLED, State.WAITING, 0)
    full.admission.answer(called)
    assert full.admission.available == 0, "nor while it connects"


def test_an_unpromised_ticket_does_not_take_a_promised_slot(gate: Gate) -> None:
    gate.slots = 2
    early = gate.ask("early")
    talks = [gate.talk("a"), gate.talk("b")]
    called = gate.ask("called")
    gate.leave(talks[0])
    assert called.state is State.CALLED
    assert _refused(gate.admission.enter, early).sentence == QUICKER
    gate.admission.answer(called)
    gate.enter(called)


def test_who_comes_back_is_before_all_who_wait(full: Gate) -> None:
    talking, waiting = full.tickets[0], full.ask("waiting")
    back = full.come_back("back")
    assert full.admission.waiting == [back, waiting] and full.admission.place(back) == 1
    full.leave(talking)
    assert back.state is State.ADMITTED and back.promised, "it is not asked whether it is there"
    assert waiting.state is State.WAITING


def test_coming_back_to_a_free_house_is_at_once_and_counts_as_no_join(gate: Gate) -> None:
    for _ in range(20):
        ticket = gate.come_back("anna")
        assert ticket.state is State.ADMITTED
        gate.leave(ticket)


# What is not its turn.


@pytest.mark.parametrize("state", [State.WAITING, State.ADMITTED, State.LIVE, State.OVER])
def test_only_who_is_called_answers(full: Gate, state: State) -> None:
    ticket = Ticket("s", "v", state=state)
    assert _refused(full.admission.answer, ticket).code == "not_your_turn"


@pytest.mark.parametrize("state", [State.WAITING, State.CALLED, State.LIVE, State.OVER])
def test_only_who_is_admitted_enters(gate: Gate, state: State) -> None:
    ticket = Ticket("s", "v", state=state)
    assert _refused(gate.admission.enter, ticket).code == "no_ticket"
    assert gate.admission.available == 1


def test_a_ticket_is_over_once(full: Gate) -> None:
    talking = full.tickets[0]
    for _ in range(3):
        full.leave(talking)
    assert (talking.state, talking.over_because) == (State.OVER, "")
    assert full.ask("next").state is State.ADMITTED


# Everything at random.


@dataclass
class Crowd:
    """Visitors who do anything at any time; after every step the invariants are looked at."""

    gate: Gate
    random: random.Random
    seen: set[State] = field(default_factory=set)

    def step(self) -> None:
        mine = [ticket for ticket in self.gate.tickets if ticket.state is not State.OVER]
        ticket = self.random.choice(mine) if mine else None
        act = self.random.choice([self._ask, self._ask, self._back, self._answer, self._enter, self._leave, self._time])
        try:
            act(ticket)
        except NoCapacity as refused:
            assert refused.sentence
        self._look()

    def _ask(self, _: Any) -> None:
        self.gate.ask(self.random.choice("abcdefgh"), self.random.choice(["x", "y"]))

    def _back(self, _: Any) -> None:
        if self.random.random() < 0.3:
            self.gate.come_back(self.random.choice("abcdefgh"))

    def _answer(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            self.gate.admission.answer(ticket)

    def _enter(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            self.gate.enter(ticket)

    def _leave(self, ticket: Ticket | None) -> None:
        if ticket is not None and self.random.random() < 0.4:
            self.gate.leave(ticket)

    def _time(self, _: Any) -> None:
        self.gate.wait(self.random.choice([0.1, 1.0, 7.0, 25.0]))

    def _look(self) -> None:
        gate, now = self.gate, self.gate.now
        live = [ticket for ticket in gate.tickets if ticket.state is State.LIVE]
        promised = [ticket for ticket in gate.tickets if ticket.promised]
        self.seen |= {ticket.state for ticket in gate.tickets}
        assert len(live) <= gate.slots
        assert len(promised) <= gate.slots - len(live), "a promise is backed by a free slot"
        assert len({ticket.visitor for ticket in live}) == len(live)
        assert {ticket.state for ticket in promised} <= {State.CALLED, State.ADMITTED}
        assert all(ticket.deadline > now - 1e-6 for ticket in promised), "and not for ever"
        line = gate.admission.waiting
        assert [gate.admission.place(ticket) for ticket in line] == list(range(1, len(line) + 1))
        assert [ticket.returning for ticket in line] == sorted((t.returning for t in line), reverse=True)
        assert all(gate.admission.estimate_seconds(ticket) >= 0 for ticket in line)
        gate.tickets = [ticket for ticket in gate.tickets if ticket.state is not State.OVER]


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_whatever_a_crowd_does_the_rules_hold_and_everybody_gets_out(slots: int) -> None:
    gate = Gate(slots=slots, limits=Limits(joins_per_visitor=30, joins_per_address=200))
    crowd = Crowd(gate, random.Random(slots))
    for _ in range(4_000):
        crowd.step()
    assert crowd.seen == set(State)
    for _ in range(1_000):  # who is called does not answer, who talks hangs up
        for ticket in [ticket for ticket in gate.tickets if ticket.state is State.LIVE]:
            gate.leave(ticket)
        gate.wait(5.0)
        gate.tickets = [ticket for ticket in gate.tickets if ticket.state is not State.OVER]
        if not gate.tickets:
            break
    assert gate.tickets == [] and gate.admission.waiting == [] and gate.admission.available == slots
