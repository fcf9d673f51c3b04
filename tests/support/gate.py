"""An `Admission` with its slots and its clock in the hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from personaplex_app.engine.admission import Admission, Limits, Ticket, TicketState


@dataclass
class Gate:
    """Slots are free unless a live ticket sits in one.

    Attributes:
        tickets: all that were given out. now: the clock.
    """

    slots: int
    limits: Limits = field(default_factory=Limits)
    now: float = 1000.0
    tickets: list[Ticket] = field(default_factory=list)
    admission: Admission = field(init=False)

    def __post_init__(self) -> None:
        self.admission = Admission(self.slots, self._free, lambda: self.now, self.limits)

    def _free(self) -> int:
        return self.slots - sum(ticket.state is TicketState.LIVE for ticket in self.tickets)

    def ask(self, visitor: str, address: str = "somewhere") -> Ticket:
        self.tickets.append(self.admission.ask(visitor, address))
        return self.tickets[-1]

    def come_back(self, visitor: str) -> Ticket:
        self.tickets.append(self.admission.come_back(visitor))
        return self.tickets[-1]

    def enter(self, ticket: Ticket) -> None:
        self.admission.enter(ticket)

    def talk(self, visitor: str) -> Ticket:
        """Asks and has sound at once."""
        ticket = self.ask(visitor)
        self.enter(ticket)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Over, and whose turn it is is called."""
        self.admission.leave(ticket)
        self.admission.update()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        self.admission.update()
