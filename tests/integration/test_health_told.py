"""What a talk's client is told of its health about once a second: what a step takes, what waits, what was dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from support.call import Call, eventually, open_desk, play_out, talking, tone
from support.engine import CHOICES, ProbeStepper
from support.front import level, open_front

from personaplex_app.client import connect
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.session import Session
from personaplex_app.engine.slots import Tenancy
from personaplex_app.web.talk_health import engine_facts, health_of


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=2)


@pytest.fixture
def slow() -> Iterator[Engine]:
    with Engine(ProbeStepper(slots=1, step_seconds=0.12)) as engine:
        yield engine


def test_it_comes_once_a_second_while_the_talk_runs_and_not_before(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.ask()
            await caller.next("admitted")
            await asyncio.sleep(0.3)
            assert "health" not in [told["type"] for told in caller.told]
            await caller.say("sound")
            caller.speak(level(0.1))
            await asyncio.sleep(2.6)
            told = [message for message in caller.told if message["type"] == "health"]
            assert 2 <= len(told) <= 4
            last = told[-1]
            assert last["step_ms"] < 80 and not last["stalled"] and last["late_ms"] is None
            assert last["frames"] > 8 and (last["dropped"], last["unsent"], last["missed"]) == (0, 0, 0)
            assert last["heard_ms"] <= 80 and last["spoken_ms"] <= 80
            await caller.say("stop")
            await caller.next("ended")

    play_out(story)


def test_a_slow_engine_shows_in_its_step_its_queue_and_what_was_dropped(slow: Engine) -> None:
    async def story() -> None:
        async with open_front(slow) as front, front.caller() as caller:
            await caller.talk()
            caller.speak(level(0.1))
            told = await caller.next("health", 8.0, fits=lambda told: told["dropped"] >= 3)
            assert 115 <= told["step_ms"] < 400 and told["heard_ms"] >= 80

    play_out(story)


def test_it_begins_anew_with_a_talk_that_is_started_over(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.talk()
            caller.speak(level(0.1))
            before = await caller.next("health", fits=lambda told: told["frames"] > 15)
            await caller.say("start_over")
            await caller.next("started_over")
            after = await caller.next("health")
            assert after["frames"] < before["frames"]

    play_out(story)


def test_by_webrtc_what_waits_in_the_connection_counts(engine: Engine) -> None:
    async def story() -> None:
        async with open_desk(engine) as desk:
            call = Call(desk)
            await talking(call, tone(440.0))
            assert call.talk is not None and call.talk.outlet is not None
            await eventually(lambda: call.session.counters.stepped > 10)
            told = health_of(call.session, engine.step_ms, call.talk.outlet)
            assert told["late_ms"] == 20 * call.handler.pacer.counters.filled_packets
            for _ in range(5):
                call.track.queue.put_nowait(call.played[0])
            assert health_of(call.session, engine.step_ms, call.talk.outlet)["spoken_ms"] >= 80
            await call.stop()

    play_out(story)


def test_a_program_reads_it_without_an_event(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, connect(front.http) as line, line.talk() as talk:
            await talk.started()
            assert talk.health is None or talk.health.frames >= 0
            await eventually(lambda: talk.health, what="it is told")
            assert talk.health is not None and talk.health.step_ms < 80
            await talk.stop()
            assert "Health" not in [type(event).__name__ async for event in talk]

    play_out(story)


def test_what_is_not_known_of_an_engine_is_empty(stepper: ProbeStepper) -> None:
    assert engine_facts(stepper) == {"name": "echo", "precision": "", "past": "", "where": ""}
    session = Session(Tenancy(0, 1), CHOICES, None)
    assert session.queues.waiting == (0, 0)
