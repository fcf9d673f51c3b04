"""Recording talks, asked first: a visitor's consent becomes a recording, and its end ends it.

Before the consent no frame is kept; with it the next frame is the first. A talk that comes back goes on in the same
recording; one that is started over is another talk, and has another recording as long as the consent holds.
In: consents, talks that begin, go on and end. Out: recordings in the store, and what a talk's client is told of it.
Must not know: sockets, routes, how sound is kept.
"""

from __future__ import annotations

import asyncio
from typing import Any

from personaplex_app.errors import InvalidInput, NoCapacity
from personaplex_app.web.recordings import Recorded, Recordings, TalkOnRecord
from personaplex_app.web.talk import Talk

SWEEP_AFTER_SECONDS = 1.0  # the end of a recording's time
NO_COOKIE = "A recording belongs to the browser it was made in: open the page there, and allow its cookie."
WILL_BEGIN = "Recording begins with the talk."
BEGUN = "Recording has begun."
OVER = "The recording has ended. It is kept for an hour, or until you delete it."
DELETED = "The recording is deleted; nothing more is recorded."


class Recorder:
    """Joins talks and recordings."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._sweeper: asyncio.TimerHandle | None = None

    def consent(self, talk: Talk) -> None:
        """The visitor wants the talk recorded, from now on; raises InvalidInput or NoCapacity in words."""
        if talk.anonymous:
            raise InvalidInput(NO_COOKIE, code="no_cookie")
        if talk.recorded is None or not talk.recorded.on:
            if talk.session is not None or not talk.grant:  # one that comes back may have a recording already
                self._recordings.check_room(talk.ticket.visitor)
            self._end(talk)
            talk.consented, talk.recorded, talk.unrecorded = True, None, ""
            self._begin(talk)
        talk.changed()

    def withdraw(self, talk: Talk) -> None:
        """The visitor wants no more of it recorded; what was recorded is kept until it is deleted."""
        talk.consented, talk.unrecorded = False, ""
        self._end(talk)
        talk.changed()

    def _end(self, talk: Talk) -> None:
        if talk.recorded is None:
            return
        self._over(talk.recorded)
        if talk.session is not None:
            talk.session.onlookers.remove(talk.recorded)

    def _over(self, one: Recorded) -> None:
        self._recordings.end(one)
        self._sweep_later()

    def _sweep_later(self) -> None:
        """What is too old is dropped though nobody asks for it; one timer does, however much is recorded."""
        seconds = self._recordings.next_seconds
        if self._sweeper is None and seconds is not None:
            loop = asyncio.get_running_loop()
            self._sweeper = loop.call_later(seconds + SWEEP_AFTER_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        self._recordings.sweep()
        self._sweep_later()

    def joined(self, talk: Talk) -> None:
        """The talk has a session: its first, one that goes on, or one that begins anew."""
        assert talk.session is not None and talk.looking is not None
        before, found = talk.recorded, talk.session.onlookers.find(Recorded)
        if before is not None and before is not found:
            talk.consented = bool(talk.consented) and not before.deleted
            self._over(before)
        talk.recorded = None
        if found is not None and found.on:
            self._come_back(talk, found)
        if talk.consented and talk.recorded is None:
            self._begin(talk)

    def _come_back(self, talk: Talk, found: Recorded) -> None:
        """Whoever takes up another's talk has consented to nothing; one's own may have been unticked meanwhile."""
        own = found.visitor == talk.ticket.visitor and not talk.anonymous
        if not own or talk.consented is False:
            self._over(found)
            talk.recorded = found if own else None  # whoever unticked it is told that it is over
            return
        talk.consented, talk.recorded = True, found
        self._recordings.go_on(found, _on_record(talk))

    def _begin(self, talk: Talk) -> None:
        if talk.session is None:
            return
        try:
            talk.recorded = self._recordings.begin(talk.ticket.visitor, _on_record(talk))
        except NoCapacity as error:
            talk.consented, talk.unrecorded = False, error.sentence
        else:
            talk.session.onlookers.add(talk.recorded)

    def over(self, talk: Talk, may_come_back: bool) -> None:
        """The talk has ended, for good or until it is taken up again."""
        if talk.recorded is None:
            return
        if may_come_back and talk.recorded.on:
            self._recordings.rest(talk.recorded)
            self._sweep_later()
        else:
            self._over(talk.recorded)

    def view(self, talk: Talk) -> dict[str, Any] | None:
        """The fields of a `recording` message; None where nothing was ever asked, or the talk may come back."""
        one = talk.recorded
        if one is not None and one.on and talk.ended is not None and talk.ended[0] == "lost":
            return None
        if one is None:
            sentence = talk.unrecorded or (WILL_BEGIN if talk.consented else "")
            return _fields(sentence=sentence) if sentence else None
        left = self._recordings.left_seconds(one)
        on = one.on and talk.ended is None
        sentence = DELETED if one.deleted else BEGUN if on else one.sound.why or OVER
        expires = None if on or left is None else round(left)
        return _fields(one.name, on, one.sound.seconds, one.start_seconds, expires, sentence)


def _on_record(talk: Talk) -> TalkOnRecord:
    assert talk.session is not None and talk.looking is not None
    return TalkOnRecord(talk.session, talk.looking.turns)


def _fields(
    name: str = "",
    on: bool = False,
    seconds: float = 0.0,
    start: float = 0.0,
    expires_seconds: float | None = None,
    sentence: str = "",
) -> dict[str, Any]:
    return {
        "id": name,
        "on": on,
        "seconds": seconds,
        "start": start,
        "expires_seconds": expires_seconds,
        "sentence": sentence,
    }
