"""The handler between FastRTC and a talk, without a browser: a ticket opens it, its sound goes both ways."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from support.call import PACKET_SAMPLES, Call, eventually, hush, open_desk, play_out, talking, tone
from support.desk import Door, slot_free
from support.engine import is_talking

from personaplex_app.engine.admission import TicketState
from personaplex_app.engine.facade import Engine
from personaplex_app.web import handler as handler_module
from personaplex_app.web.handler import MOVED, NO_TICKET, WIRE_RATE_HZ, CallHandler
from personaplex_app.web.pacing import MOST_WAITING_MS

HZ = 440.0


@pytest.fixture
def stepper() -> Door:
    return Door()


def _loudness(sound: np.ndarray, hz: float) -> float:
    """Amplitude of one frequency."""
    turn = np.exp(-2j * np.pi * hz * np.arange(len(sound)) / WIRE_RATE_HZ)
    return float(2 * np.abs(np.mean(sound * turn)))


@pytest.mark.timed
def test_what_is_said_comes_back_and_little_waits(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call, tone(HZ))
            await asyncio.sleep(2.5)
            steady = np.concatenate(call.played[-50:])
            await call.stop()
            loudness = [_loudness(packet, HZ) for packet in steady.reshape(-1, PACKET_SAMPLES)]
            assert np.median(loudness) == pytest.approx(0.5, abs=0.05)
            assert call.longest_ms <= MOST_WAITING_MS + 80
            assert call.goodbyes == [], "nobody said goodbye"

    play_out(story)


def test_both_ways_in_one_talk_are_counted(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            assert call.talk is not None and call.talk.path == "webrtc"
            await eventually(lambda: call.session.counters.stepped > 5)
            await call.stop()
            assert call.session.counters.heard > 5
            assert b'talks_started_total{path="webrtc"} 1.0' in desk.metrics.render()[0]

    play_out(story)


# The ticket.


def test_a_ticket_may_come_late_and_after_others(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            ticket = call.ask()
            call.start(None, hush)
            for other in ("", "junk", ticket[:-1]):
                call.bring(other)
                await asyncio.sleep(0.1)
            assert engine.status.free == 1
            call.bring(ticket)
            await eventually(lambda: call.talk and call.talk.talking)
            await call.stop()

    play_out(story)


@pytest.mark.parametrize("ticket", [None, "", "junk", "7"])
def test_without_a_ticket_the_connection_ends_in_words(
    engine: Engine, ticket: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_module, "TICKET_SECONDS", 0.2)
    monkeypatch.setattr(handler_module, "FAREWELL_SECONDS", 0.1)

    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            call.start(ticket, hush)
            await eventually(lambda: call.goodbyes, what="goodbye")
            assert call.goodbyes == [NO_TICKET] and engine.status.free == 1
            await eventually(lambda: call.peers.closed, 1.0, "and is closed")
            await call.stop()

    play_out(story)


def test_a_ticket_is_its_own_visitor_s(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_module, "TICKET_SECONDS", 0.3)

    async def story() -> None:
        async with open_desk(engine) as desk:
            owner, thief = Call(desk, "anna"), Call(desk, "thief")
            ticket = owner.ask()
            thief.start(ticket, hush)
            await eventually(lambda: thief.goodbyes, what="goodbye")
            assert thief.goodbyes == [NO_TICKET] and engine.status.free == 1
            await thief.stop()
            kept = dict(owner.peers.cookies)
            owner.peers.cookies.clear()
            assert not desk.expected(None), "who asked with a cookie connects with it"
            talk = desk.talk_with(ticket)
            assert talk is not None and not talk.belongs_to(None) and talk.belongs_to("anna")
            talk.anonymous = True  # as if a browser that keeps no cookie had asked
            assert talk.belongs_to(None) and not talk.belongs_to("thief")
            owner.peers.cookies.update(kept)
            owner.start(ticket, hush)
            await eventually(lambda: owner.talk and owner.talk.talking)
            await owner.stop()

    play_out(story)


def test_a_ticket_that_waits_opens_nothing(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            first, second = Call(desk, "first"), Call(desk, "second")
            await talking(first)
            ticket = second.ask()
            assert second.talk is not None and second.talk.ticket.state is TicketState.WAITING
            second.start(ticket, hush)
            assert await eventually(lambda: second.goodbyes, what="refusal") < 0.5
            assert second.goodbyes == ["This ticket is not admitted, or not any more."]
            await second.stop()
            assert is_talking(first.session), "who talks goes on"
            assert desk.place(second.talk) == 1, "and who waits keeps the place"
            await first.stop()

    play_out(story)


def test_who_connects_second_is_first_in_the_line(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            quick, slow = Call(desk, "quick"), Call(desk, "slow")
            tickets = quick.ask(), slow.ask()
            quick.start(tickets[0], hush)
            await eventually(lambda: quick.talk and quick.talk.talking)
            slow.start(tickets[1], hush)
            await eventually(lambda: slow.goodbyes)
            assert "Somebody was quicker" in slow.goodbyes[0] and slow.talk is not None
            assert slow.end is None and desk.place(slow.talk) == 1
            await slow.stop()
            desk.stop(quick.talk)  # type: ignore[arg-type]
            await eventually(lambda: slow.talk and slow.talk.ticket.state is TicketState.CALLED, 1.0, "its turn")
            await quick.stop()

    play_out(story)


def test_a_second_connection_with_the_same_ticket_changes_nothing(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call, double = Call(desk), Call(desk)
            await talking(call)
            assert call.talk is not None
            double.start(call.talk.ticket.secret, hush)
            await eventually(lambda: double.goodbyes)
            assert double.goodbyes == ["The sound of this talk travels already."]
            await double.stop()
            await asyncio.sleep(0.1)
            assert call.talk.talking and call.end is None and call.goodbyes == []
            await call.stop()

    play_out(story)


# Ways.


def test_sound_that_moves_to_the_socket_ends_the_connection_and_not_the_talk(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_module, "FAREWELL_SECONDS", 0.1)

    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            assert call.talk is not None
            await desk.enter(call.talk, "socket")
            await eventually(lambda: call.goodbyes)
            await eventually(lambda: call.peers.closed, 1.0, "closed")
            await call.stop()
            assert call.goodbyes == [MOVED] and call.talk.talking and call.end is None
            desk.stop(call.talk)

    play_out(story)


def test_a_page_that_gave_webrtc_up_while_it_joined_has_its_talk_on_the_socket(engine: Engine, stepper: Door) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            stepper.door.clear()
            call.start(call.ask(), hush)
            assert call.talk is not None
            await eventually(lambda: call.talk and call.talk.entering)
            await desk.enter(call.talk, "socket")
            await call.handler.shutdown()
            stepper.door.set()
            await eventually(lambda: call.talk and call.talk.talking, what="talking")
            await call.stop()
            assert call.talk.path == "socket" and call.end is None
            desk.stop(call.talk)
            await slot_free(desk)

    play_out(story)


def test_a_talk_that_was_cut_off_goes_on_over_a_new_connection(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            await eventually(lambda: call.session.counters.stepped > 5)
            await call.stop()
            tokens = list(call.session.text_tokens)
            assert call.talk is not None and call.end is not None and call.end[0] == "lost"
            await slot_free(desk)
            again = Call(desk)
            again.talk = desk.come_back("anna", call.talk.grant)
            again.start(again.talk.ticket.secret, tone(HZ))
            await eventually(lambda: again.talk and again.talk.talking)
            await eventually(lambda: len(again.session.text_tokens) > len(tokens) + 3)
            assert again.session.resumed and again.session.text_tokens[: len(tokens)] == tokens
            await again.stop()

    play_out(story)


def test_a_copy_is_a_fresh_call(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call)
            other = call.handler.copy()
            assert isinstance(other, CallHandler) and other._talk is None and other.pacer is not call.handler.pacer
            await call.stop()

    play_out(story)
