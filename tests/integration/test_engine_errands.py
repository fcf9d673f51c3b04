"""Work that is no talk's on the tick thread: talks go on meanwhile, newcomers come first, the end is told."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest
from support.engine import CHOICES, ProbeStepper, Talker, is_talking, join_talking, pace, until

from personaplex_app.audio import FRAME_SECONDS, silence
from personaplex_app.engine.echo import EchoVoice
from personaplex_app.engine.facade import BUSY, Engine
from personaplex_app.engine.tick_loop import CLOSING
from personaplex_app.errors import NoCapacity, ServerFault


def _pieces(count: int, seconds: float, threads: list[str]) -> Generator[None, None, int]:
    for _ in range(count):
        threads.append(threading.current_thread().name)
        threading.Event().wait(seconds)
        yield
    return count


def test_an_errand_is_done_on_the_tick_thread_while_nobody_talks() -> None:
    threads: list[str] = []
    with Engine(ProbeStepper()) as engine:
        assert engine.errand(_pieces(3, 0.0, threads)).result(20) == 3
        assert engine.errand(_pieces(3, 0.0, threads), background=True).result(20) == 3
    assert set(threads) == {"tick"} and len(threads) == 6


@pytest.mark.timed
def test_a_talk_loses_no_frame_to_an_errand() -> None:
    threads: list[str] = []
    with Engine(ProbeStepper()) as engine:
        talker = join_talking(engine)
        future = engine.errand(_pieces(60, 0.015, threads))
        pace(25, lambda index: talker.say(index + 1.0), [talker])
        assert future.done(), "a piece of 15 ms fits beside a tick"
        until(lambda: len(talker.collect()) >= 25)
        counters = talker.session.counters
    assert talker.values[:25] == [index + 1.0 for index in range(25)] and counters.heard_dropped == 0


def test_a_newcomer_is_primed_before_the_errand_goes_on() -> None:
    threads: list[str] = []
    with Engine(ProbeStepper(2)) as engine:
        future = engine.errand(_pieces(1000, 0.01, threads))
        session = engine.join(CHOICES)
        until(lambda: is_talking(session), 1.0, "the newcomer talks")
        assert not future.done()
        future.cancel()
        Talker(engine, session).say(1.0)


def test_those_who_wait_for_an_errand_are_told_when_the_engine_stops() -> None:
    engine = Engine(ProbeStepper())
    engine.start()
    future = engine.errand(_pieces(10_000, 0.01, []))
    engine.stop()
    with pytest.raises(ServerFault, match=CLOSING):
        future.result(1)
    with pytest.raises(ServerFault, match=CLOSING):
        engine.errand(_pieces(1, 0.0, []))


def test_a_voice_that_takes_too_long_is_given_up() -> None:
    with Engine(ProbeStepper()) as engine:
        endless = engine.errand(_pieces(10_000, 0.01, []))
        with pytest.raises(NoCapacity, match=BUSY[:30]):
            engine.learn_voice(silence(), timeout_seconds=2 * FRAME_SECONDS)
        endless.cancel()
        assert engine.learn_voice(silence()) == EchoVoice()
