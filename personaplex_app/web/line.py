"""The line at the desk: where every talk stands, and a word to those for whom that is another place now.

In: the desk's talks and their tickets. Out: what a `waiting` message says; talks that are woken.
Must not know: sockets, sessions, why a talk is over. It lives on the server's event loop alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from personaplex_app.engine.admission import ALREADY_TALKING, Admission, TicketState
from personaplex_app.web.call_view import line_words
from personaplex_app.web.talk import Talk

Standing = dict[Talk, tuple[TicketState, int]]


class Line:
    """All talks of a desk, as their tickets stand.

    Args:
        talks: those that are not over, by their tickets' secrets; the desk adds and removes them.
    """

    def __init__(self, admission: Admission, talks: Mapping[str, Talk]) -> None:
        self._admission = admission
        self._talks = talks

    def update(self) -> None:
        """Lets what has lapsed lapse, and calls those whose turn it is; tells nobody."""
        self._admission.update()

    def standing(self) -> Standing:
        """Every talk's ticket at a glance, and its place in the line, 0 outside of it."""
        places = self._admission.places()
        return {talk: (talk.ticket.state, places.get(talk.ticket, 0)) for talk in self._talks.values()}

    def tell_moved(self, before: Standing) -> None:
        """Wakes who stands elsewhere than before, or is over."""
        after = self.standing()
        for talk, standing in before.items():
            if standing != after.get(talk):
                talk.changed()

    def tell(self) -> None:
        """Wakes all who wait, are called or have yet to connect."""
        for talk in self._talks.values():
            if talk.ticket.state is not TicketState.LIVE:
                talk.changed()

    def message(self, talk: Talk) -> dict[str, object]:
        """Place, length of the line, estimate in seconds and a sentence."""
        places = self._admission.places()
        place, seconds = places.get(talk.ticket, 0), self._admission.estimate_seconds(talk.ticket)
        sentence = ALREADY_TALKING if self._admission.already_talking(talk.ticket) else line_words(place, seconds)
        return {"place": place, "of": len(places), "estimate_seconds": round(seconds), "sentence": sentence}
