"""Starting over: a talk begins anew with other choices, in its own slot and over the same connection.

In: a talk that has a slot, checked choices. Out: the same talk with a fresh session. What is refused, is refused before
anything is touched. The clock of the call goes on, so that nobody talks for ever. Must not know: sockets, FastRTC.
"""

from __future__ import annotations

from personaplex_app.controls import Choices
from personaplex_app.errors import InvalidInput
from personaplex_app.web.desk import FrontDesk
from personaplex_app.web.talk import Talk

NOT_YET = "The talk has not begun: there is nothing to start over yet."


async def start_over(desk: FrontDesk, talk: Talk, address: str, choices: Choices) -> None:
    """Begins it anew; it counts as a start of its visitor and of the address.

    Raises InvalidInput, NoCapacity, SessionEnded or ServerFault in words, and the talk is as it was.
    """
    if talk.session is None or talk.entering:
        raise InvalidInput(NOT_YET)
    voice = desk.own_voices.learned(talk.ticket.visitor, choices.voice)
    desk.count_start(talk.ticket.visitor, address)
    talk.count()
    before = talk.session
    talk.entering = True
    try:
        await talk.start_over(desk.engine, choices, voice)
    finally:
        talk.entering = False
    if talk.ended is not None:  # left while it was prepared
        desk.engine.leave(talk.session, talk.ended[1])
        return
    desk.recorder.joined(talk)
    desk.metrics.started_over()
    if talk.meter is not None:
        talk.meter.note(before.counters)  # what came while the new one was prepared
        talk.meter.begin_anew(talk.session.counters)
