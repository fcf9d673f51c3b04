"""The front desk over a real engine: tickets become talks, and whatever ends a talk frees its slot at once."""

from __future__ import annotations

import asyncio

import pytest
from support.call import eventually, open_desk, play_out
from support.desk import Voice, slot_free, talking_at
from support.engine import CHOICES, ProbeStepper, is_talking

from personaplex_app.engine.admission import TicketState
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.errors import NoCapacity, SessionEnded
from personaplex_app.web.desk import LOST, TOO_LATE

FREE_SECONDS = 1.0


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper()


# From the ask to the end.


def test_a_ticket_becomes_a_talk_and_a_stop_leaves_nothing(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            talk = desk.ask("anna", "somewhere", CHOICES)
            assert talk.ticket.state is TicketState.ADMITTED and engine.status.free == 1
            assert desk.talk_with(talk.ticket.secret) is talk and desk.expected("anna") == 1
            await desk.enter(talk, "socket")
            await eventually(lambda: talk.talking)
            assert (
                engine.status.free == 0
                and desk.status.talking == 1
                and not desk.expected(None)
                and not desk.expected("anna")
            )
            desk.stop(talk)
            assert talk.ended == ("stopped", YOU_STOPPED) and desk.talk_with(talk.ticket.secret) is None
            await slot_free(desk)
            assert not engine.can_resume(talk.grant) and engine.parked.count == 0

    play_out(story)


@pytest.mark.timed
def test_a_lost_talk_is_parked_and_goes_on_where_it_was(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            first = await talking_at(desk)
            async with Voice(desk, first):
                await eventually(lambda: first.session and first.session.counters.stepped >= 5)
            before = first.session
            assert before is not None
            desk.lose(first)
            assert first.ended == ("lost", LOST) and await slot_free(desk) < FREE_SECONDS
            tokens = list(before.text_tokens)
            second = desk.come_back("anna", first.grant)
            await desk.enter(second, "webrtc")
            await eventually(lambda: second.talking)
            assert second.session is not None and second.session.resumed and second.choices == CHOICES
            async with Voice(desk, second):
                await eventually(lambda: second.session and len(second.session.text_tokens) >= len(tokens) + 5)
            assert second.session.text_tokens == list(range(1, len(second.session.text_tokens) + 1)), "no token is lost"
            assert second.session.text_tokens[: len(tokens)] == tokens
            assert second.grant != first.grant and not engine.can_resume(first.grant)
            with pytest.raises(SessionEnded) as refused:
                desk.come_back("anna", first.grant)
            assert (refused.value.code, refused.value.sentence) == ("grant_unknown", TOO_LATE)

    play_out(story)


def test_who_comes_back_before_the_loss_is_noticed_takes_the_talk_over(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            old = await talking_at(desk)
            new = desk.come_back("anna", old.grant)
            assert old.ended == ("lost", LOST)
            await eventually(lambda: new.ticket.state is TicketState.ADMITTED, what="the slot is free")
            await desk.enter(new, "socket")
            await eventually(lambda: new.talking)
            assert engine.status.free == 0 and desk.status.talking == 1

    play_out(story)


def test_who_waits_to_come_back_keeps_the_grant_and_is_first() -> None:
    async def story(engine: Engine) -> None:
        async with open_desk(engine) as desk:
            mine = await talking_at(desk)
            desk.lose(mine)
            await slot_free(desk)
            other = await talking_at(desk, "bert")
            waiting = desk.ask("carl", "somewhere", CHOICES)
            back = desk.come_back("anna", mine.grant)
            assert [desk.place(talk) for talk in (back, waiting)] == [1, 2]
            async with Voice(desk, other):
                await asyncio.sleep(1.2)  # more than twice as long as a grant holds
            assert engine.can_resume(mine.grant)
            desk.stop(other)
            await eventually(lambda: back.ticket.state is TicketState.ADMITTED, what="without being asked")
            await desk.enter(back, "socket")
            assert back.session is not None and back.session.resumed
            assert waiting.ticket.state is TicketState.WAITING

    with Engine(ProbeStepper(), grant_seconds=0.5) as engine:
        play_out(lambda: story(engine))


def test_a_grant_runs_out() -> None:
    async def story(engine: Engine) -> None:
        async with open_desk(engine) as desk:
            talk = await talking_at(desk)
            desk.lose(talk)
            await asyncio.sleep(0.5)
            with pytest.raises(SessionEnded, match="too much time"):
                desk.come_back("anna", talk.grant)

    with Engine(ProbeStepper(), grant_seconds=0.2) as engine:
        play_out(lambda: story(engine))


def test_sound_that_changes_its_path_stays_in_its_talk(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            talk = await talking_at(desk, path="webrtc")
            session = talk.session
            await desk.enter(talk, "socket")
            assert talk.session is session and talk.path == "socket" and engine.status.free == 0

    play_out(story)


# Going home.


def test_draining_sends_away_who_waits_and_warns_who_talks(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            talk = await talking_at(desk)
            waiting = desk.ask("bert", "somewhere", CHOICES)
            desk.drain("The server is about to stop.", 20.0)
            assert waiting.ended == ("draining", "The server is about to stop.")
            assert talk.ended is None and is_talking(talk.session)  # type: ignore[arg-type]
            (notice,) = talk.warnings
            assert (notice.code, notice.seconds, notice.sentence) == ("draining", 20.0, "The server is about to stop.")
            for enter in (lambda: desk.ask("carl", "somewhere", CHOICES), lambda: desk.come_back("anna", talk.grant)):
                with pytest.raises(NoCapacity) as refused:
                    enter()
                assert (refused.value.code, refused.value.sentence) == ("draining", "The server is about to stop.")
            desk.stop(talk)
            assert desk.status.talking == 0 and desk.status.draining

    play_out(story)


def test_what_happened_is_counted(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            for end in (desk.stop, desk.lose):
                talk = await talking_at(desk)
                async with Voice(desk, talk):
                    await eventually(lambda: talk.session and talk.session.counters.stepped >= 3)  # noqa: B023
                end(talk)
                await slot_free(desk)
            back = desk.come_back("anna", talk.grant)
            await desk.enter(back, "webrtc")
            desk.stop(back)
            text = desk.metrics.render()[0].decode()
            for line in (
                'personaplex_talks_started_total{path="socket"} 2.0',
                'personaplex_talks_started_total{path="webrtc"} 1.0',
                'personaplex_talks_ended_total{code="stopped"} 2.0',
                'personaplex_talks_ended_total{code="lost"} 1.0',
                'personaplex_resumes_total{outcome="resumed"} 1.0',
            ):
                assert line in text.splitlines(), line

    play_out(story)
