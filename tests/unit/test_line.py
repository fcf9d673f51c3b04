"""Everybody in the line is told where they stand, and woken when that is elsewhere; who talks is left alone."""

from __future__ import annotations

import asyncio

import pytest
from support.engine import CHOICES
from support.gate import Gate

from personaplex_app.engine.admission import ALREADY_TALKING, Limits, Ticket
from personaplex_app.engine.admission import TicketState as State
from personaplex_app.engine.waits import FIRST_GUESS_SECONDS
from personaplex_app.web.call_view import line_words
from personaplex_app.web.line import Line
from personaplex_app.web.talk import Talk


class Hall:
    """One slot, its line, and who was woken."""

    def __init__(self) -> None:
        self.gate = Gate(slots=1, limits=Limits(turn_seconds=30.0))
        self.talks: dict[str, Talk] = {}
        self.line = Line(self.gate.admission, self.talks)
        self._woken: dict[Talk, asyncio.Event] = {}

    def add(self, ticket: Ticket) -> Talk:
        talk = self.talks[ticket.secret] = Talk(ticket, CHOICES)
        self._woken[talk] = talk.listen()
        return talk

    def woken(self) -> list[Talk]:
        """Since the last time."""
        woken = [talk for talk, event in self._woken.items() if event.is_set()]
        for event in self._woken.values():
            event.clear()
        return woken


@pytest.fixture
def hall() -> Hall:
    return Hall()


def test_what_somebody_who_waits_is_told(hall: Hall) -> None:
    hall.add(hall.gate.talk("anna"))
    first, second = (hall.add(hall.gate.ask(name)) for name in ("bert", "carl"))
    message = hall.line.message(first)
    seconds = message["estimate_seconds"]
    assert message == {"place": 1, "of": 2, "estimate_seconds": seconds, "sentence": line_words(1, FIRST_GUESS_SECONDS)}
    assert seconds == round(FIRST_GUESS_SECONDS)
    assert (hall.line.message(second)["place"], hall.line.message(second)["of"]) == (2, 2)


def test_who_waits_for_an_own_talk_is_told_so(hall: Hall) -> None:
    hall.add(hall.gate.talk("anna"))
    assert hall.line.message(hall.add(hall.gate.ask("anna")))["sentence"] == ALREADY_TALKING


def test_everybody_but_who_talks_is_told(hall: Hall) -> None:
    hall.add(hall.gate.talk("anna"))
    waiting = hall.add(hall.gate.ask("bert"))
    hall.woken()
    hall.line.tell()
    assert hall.woken() == [waiting]


def test_who_moved_up_or_was_called_is_woken_and_nobody_else(hall: Hall) -> None:
    live = hall.add(hall.gate.talk("anna"))
    first, second = (hall.add(hall.gate.ask(name)) for name in ("bert", "carl"))
    hall.woken()
    before = hall.line.standing()
    assert before == {live: (State.LIVE, 0), first: (State.WAITING, 1), second: (State.WAITING, 2)}
    hall.line.tell_moved(before)
    assert hall.woken() == []
    hall.gate.admission.leave(live.ticket)
    hall.talks.pop(live.ticket.secret)
    hall.line.update()
    assert hall.woken() == [], "to update tells nobody"
    assert hall.line.standing() == {first: (State.CALLED, 0), second: (State.WAITING, 1)}
    hall.line.tell_moved(before)
    assert hall.woken() == [live, first, second]
    hall.gate.now += hall.gate.limits.turn_seconds
    before = hall.line.standing()
    hall.line.update()
    hall.line.tell_moved(before)
    assert first.ticket.state is State.OVER and hall.woken() == [first, second]
