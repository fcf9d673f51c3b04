"""Who may enter when: tickets, the waiting line, limits per visitor and per address. Pure.

In: asks, answers, arrivals of sound, and how many slots are free. Out: tickets in a state, or NoCapacity in words.
A ticket admitted at once holds nothing: the slot goes to whoever's sound comes first. One called from the line has its
slot promised until it answers and connects. Must not know: threads, the web, what a slot is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from personaplex_app.engine.joins import JoinLimit
from personaplex_app.engine.waits import TalkLengths
from personaplex_app.errors import NoCapacity

SHORTEST_TALK_SECONDS = 1.0  # less is a join that failed, and says nothing of how long talks last
ALREADY_TALKING = "You are already talking in another window. This one goes on when that talk is over."
QUICKER = "Somebody was quicker. You are the first in the line."


@dataclass(frozen=True)
class Limits:
    """What one visitor, one address and the line may take; seconds that a promise lasts."""

    tickets_per_visitor: int = 2
    joins_per_visitor: int = 6
    joins_per_address: int = 60
    joins_within_seconds: float = 60.0
    line_length: int = 200
    turn_seconds: float = 30.0
    connect_seconds: float = 20.0


class TicketState(Enum):
    """In the line, called to answer, admitted to connect, talking, or over."""

    WAITING = "waiting"
    CALLED = "called"
    ADMITTED = "admitted"
    LIVE = "live"
    OVER = "over"


@dataclass(eq=False)
class Ticket:
    """The right to wait or enter.

    Attributes:
        secret: names the ticket; whoever brings it may open its slot. deadline: when a call or an admission lapses.
        promised: whether a free slot is kept for it. returning: it resumes a talk, so it goes first and is not asked
            whether it is still there. over_because: `no_answer` or `not_connected` where it lapsed.
    """

    secret: str
    visitor: str
    returning: bool = False
    state: TicketState = TicketState.WAITING
    deadline: float = 0.0
    promised: bool = False
    live_since: float = 0.0
    over_because: str = ""


class Admission:
    """All tickets that are not over.

    Args:
        free_slots: how many slots nobody holds. slots: how many there are. clock: seconds, steady.
    """

    def __init__(
        self, slots: int, free_slots: Callable[[], int], clock: Callable[[], float], limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.lengths = TalkLengths(slots)
        self._free_slots = free_slots
        self._clock = clock
        self._tickets: list[Ticket] = []
        within = self.limits.joins_within_seconds
        self._by_visitor = JoinLimit(self.limits.joins_per_visitor, within)
        self._by_address = JoinLimit(self.limits.joins_per_address, within)

    def ask(self, visitor: str, address: str) -> Ticket:
        """A new ticket, admitted or waiting. Raises NoCapacity: too many joins or tickets, or the line is full."""
        now = self._clock()
        self._check_joins(visitor, address, now)
        mine = [ticket for ticket in self._tickets if ticket.visitor == visitor]
        if len(mine) >= self.limits.tickets_per_visitor:
            raise NoCapacity("You are already here in two windows. Close one of them first.", code="too_many_tickets")
        if len(self.waiting) >= self.limits.line_length:
            raise NoCapacity(f"{len(self.waiting)} people are waiting already. Try again later.")
        self._note_join(visitor, address, now)
        return self._add(Ticket(secrets.token_urlsafe(24), visitor))

    def come_back(self, visitor: str) -> Ticket:
        """A ticket for a talk that was cut off: before all who wait."""
        return self._add(Ticket(secrets.token_urlsafe(24), visitor, returning=True))

    def start_over(self, visitor: str, address: str) -> None:
        """A talk begins anew in its own slot: one more start. Raises NoCapacity where there were too many."""
        now = self._clock()
        self._check_joins(visitor, address, now)
        self._note_join(visitor, address, now)

    def _note_join(self, visitor: str, address: str, now: float) -> None:
        self._by_visitor.note(visitor, now)
        self._by_address.note(address, now)

    def _check_joins(self, visitor: str, address: str, now: float) -> None:
        wait = max(self._by_visitor.wait_seconds(visitor, now), self._by_address.wait_seconds(address, now))
        if wait > 0:
            raise NoCapacity(f"Too many starts in a short time. Try again in {wait:.0f} s.", code="too_many_joins")

    def _add(self, ticket: Ticket) -> Ticket:
        ahead = any(self._may_enter(other) for other in self.waiting) and not ticket.returning
        self._tickets.append(ticket)
        if not ahead and self._may_enter(ticket) and self.available > 0:
            self._admit(ticket, promised=False)
        return ticket

    def _admit(self, ticket: Ticket, promised: bool) -> None:
        ticket.state = TicketState.ADMITTED
        ticket.promised = promised
        ticket.deadline = self._clock() + self.limits.connect_seconds

    @property
    def waiting(self) -> list[Ticket]:
        """The line, first one first: those who come back, then by arrival."""
        line = [ticket for ticket in self._tickets if ticket.state is TicketState.WAITING]
        return sorted(line, key=lambda ticket: not ticket.returning)

    @property
    def available(self) -> int:
        """Free slots that are promised to nobody."""
        return self._free_slots() - sum(ticket.promised for ticket in self._tickets)

    def places(self) -> dict[Ticket, int]:
        """Everybody's place in the line, 1 for the first."""
        return {ticket: place for place, ticket in enumerate(self.waiting, 1)}

    def place(self, ticket: Ticket) -> int:
        """1 for the first of the line; 0 for a ticket that does not wait."""
        return self.places().get(ticket, 0)

    def estimate_seconds(self, ticket: Ticket) -> float:
        """How long a ticket at this place will wait, from how long talks last here."""
        now = self._clock()
        lasted = [now - other.live_since for other in self._tickets if other.state is TicketState.LIVE]
        return self.lengths.wait_seconds(self.place(ticket), lasted)

    def already_talking(self, ticket: Ticket) -> bool:
        """Whether this ticket waits for another talk of its own visitor."""
        return not self._may_enter(ticket)

    def _may_enter(self, ticket: Ticket) -> bool:
        return not any(
            other is not ticket and other.visitor == ticket.visitor and other.state is TicketState.LIVE
            for other in self._tickets
        )

    def answer(self, ticket: Ticket) -> None:
        """The visitor whose turn it is is there. Raises NoCapacity where it is not this ticket's turn."""
        if ticket.state is not TicketState.CALLED:
            raise NoCapacity("It is not your turn.", code="not_your_turn")
        self._admit(ticket, promised=True)

    def enter(self, ticket: Ticket) -> None:
        """Sound flows: the ticket takes a slot. Raises NoCapacity where others came first; it is then first in line."""
        if ticket.state is not TicketState.ADMITTED:
            raise NoCapacity("This ticket is not admitted, or not any more.", code="no_ticket")
        if not self._may_enter(ticket):
            self._back_to_line(ticket)
            raise NoCapacity(ALREADY_TALKING, code="no_ticket")
        if not ticket.promised and self.available <= 0:
            self._back_to_line(ticket)
            raise NoCapacity(QUICKER, code="no_ticket")
        ticket.promised = False
        ticket.state = TicketState.LIVE
        ticket.live_since = self._clock()

    def _back_to_line(self, ticket: Ticket) -> None:
        ticket.state = TicketState.WAITING
        ticket.promised = False
        self._tickets.remove(ticket)
        self._tickets.insert(0, ticket)

    def leave(self, ticket: Ticket) -> None:
        """The ticket is over, however often it is said."""
        if ticket.state is TicketState.LIVE and self._clock() - ticket.live_since >= SHORTEST_TALK_SECONDS:
            self.lengths.note(self._clock() - ticket.live_since)
        self._close(ticket, "")

    def _close(self, ticket: Ticket, because: str) -> None:
        if ticket in self._tickets:
            self._tickets.remove(ticket)
        ticket.state = TicketState.OVER
        ticket.promised = False
        ticket.over_because = ticket.over_because or because

    def update(self) -> None:
        """Lets what has lapsed lapse, and calls those whose turn it is."""
        now = self._clock()
        for ticket in list(self._tickets):
            if ticket.state in (TicketState.CALLED, TicketState.ADMITTED) and now >= ticket.deadline:
                self._close(ticket, "no_answer" if ticket.state is TicketState.CALLED else "not_connected")
        for ticket in self._next_ones():
            if ticket.returning:
                self._admit(ticket, promised=True)
            else:
                ticket.state = TicketState.CALLED
                ticket.promised = True
                ticket.deadline = now + self.limits.turn_seconds

    def _next_ones(self) -> Iterator[Ticket]:
        for ticket in self.waiting:
            if self.available <= 0:
                return
            if self._may_enter(ticket):
                yield ticket
