"""Prompts are made ready in spare time: in order, bounded, after whoever comes, at nobody's cost."""

from __future__ import annotations

import threading
import time

import pytest
from support.engine import ProbeStepper, Talker, is_talking, join_talking, pace, until
from support.keeper import KeepingStepper

from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.loop_events import TickReport
from personaplex_app.engine.readying import Start

PROMPTS = ("a" * 25, "b" * 12, "c" * 30)
TICK_SECONDS = 0.02
MOST_GROWTH_SECONDS = 0.005


def _choices(prompt: str) -> Choices:
    return Choices(prompt, "none", SamplingSettings(), 1)


def _wanted(*prompts: str) -> list[tuple[str, Choices]]:
    return [(prompt[0], _choices(prompt)) for prompt in prompts]


def _ready(engine: Engine, count: int) -> None:
    until(lambda: engine.status.prompts_ready == count, 5.0, f"{count} prompts are ready")


def _start(engine: Engine) -> None:
    """Beside talks that run already."""
    engine.readying.start(lambda pieces: engine.errand(pieces, background=True))


def test_all_are_made_ready_in_their_order_on_the_tick_thread() -> None:
    stepper = KeepingStepper()
    engine = Engine(stepper)
    engine.readying.wanted = _wanted(*PROMPTS)
    assert engine.status.prompts_ready == 0 and engine.readying.of("a") == Start(False, 0.0)
    with engine:
        _ready(engine, 3)
        assert stepper.done == [("ready", prompt) for prompt in PROMPTS for _ in range(-(-len(prompt) // 10))]
        assert [engine.readying.of(name) for name in "abc"] == [Start(True, 0.0)] * 3
        assert engine.readying.of("nobody").ready is False
        session = engine.join(_choices(PROMPTS[1]))
        until(lambda: is_talking(session))
    assert "visitor" not in {who for who, _ in stepper.done}, "and whoever comes has nothing to wait for"


def test_without_wishes_there_is_nothing_to_do_and_no_thread() -> None:
    with Engine(KeepingStepper()) as engine:
        assert "readying" not in {thread.name for thread in threading.enumerate()}
        assert engine.readying.of("a") == Start(False, 0.0)


def test_no_more_is_kept_than_there_is_room_for_and_nothing_of_a_visitor_s_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stepper = KeepingStepper(room=2)
    engine = Engine(stepper)
    stepper.kept.append(("none", "a visitor's"))
    engine.readying.wanted = _wanted(*PROMPTS)
    with caplog.at_level("INFO"), engine:
        _ready(engine, 1)
        until(lambda: "c is not made ready: there is no room" in caplog.text)
    assert stepper.kept == [("none", PROMPTS[0]), ("none", "a visitor's")]
    assert {prompt for _, prompt in stepper.done} == {PROMPTS[0]}, "nothing is read in vain"


def test_what_cannot_be_made_ready_is_told_once_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    stepper = KeepingStepper()
    stepper.refuses = {PROMPTS[0]}
    stepper.breaks = {PROMPTS[1]: RuntimeError("a bad kernel")}
    engine = Engine(stepper)
    engine.readying.wanted = _wanted(*PROMPTS)
    with engine:
        _ready(engine, 1)
        assert engine.readying.of("c").ready and not engine.readying.of("a").ready and not engine.readying.of("b").ready
        assert not engine.status.failed and is_talking(join_talking(engine).session)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["a cannot be made ready: The prompt is too long.", "b could not be made ready"]


def test_where_memory_runs_out_the_rest_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    stepper = KeepingStepper()
    stepper.breaks = {PROMPTS[1]: RuntimeError("CUDA out of memory")}
    engine = Engine(stepper)
    engine.readying.wanted = _wanted(*PROMPTS)
    with engine:
        until(lambda: "b could not be made ready: the memory ran out" in caplog.text)
        until(lambda: "readying" not in {thread.name for thread in threading.enumerate()})
        assert engine.status.prompts_ready == 1


def test_whoever_comes_goes_first_and_may_be_quicker() -> None:
    stepper = KeepingStepper(piece_seconds=0.02)
    engine = Engine(stepper)
    engine.readying.wanted = _wanted("d" * 100, PROMPTS[2])
    with engine:
        until(lambda: len(stepper.done) >= 2)
        session = engine.join(_choices("d" * 100))
        until(lambda: is_talking(session))
        pieces = list(stepper.done)
        engine.leave(session)
        _ready(engine, 2)
        assert stepper.kept == [("none", PROMPTS[2]), ("none", "d" * 100)], "the visitor's goes last"
    first = pieces.index(("visitor", "d" * 100))
    assert pieces[first : first + 10] == [("visitor", "d" * 100)] * 10, "nothing else is read meanwhile"
    assert len(stepper.done) <= first + 10 + 1 + 3, "and what the visitor has read is not read again"


@pytest.mark.timed
def test_those_who_talk_get_their_frames_when_they_are_due() -> None:
    late: dict[str, float] = {}
    for name, prompts in (("alone", []), ("beside", [letter * 200 for letter in "efgh"])):
        stepper, reports = KeepingStepper(piece_seconds=0.01), list[TickReport]()
        stepper.step_seconds = TICK_SECONDS
        engine = Engine(stepper, on_tick=reports.append)
        with engine:
            talker = join_talking(engine)
            engine.readying.wanted = _wanted(*prompts)
            _start(engine)
            late[name] = _lateness(engine, talker, stepper)
            counters = talker.session.counters
            assert (counters.heard_dropped, counters.silence_filled, counters.missed) == (0, 0, 0)
            read = sum(who == "ready" for who, _ in stepper.done)
        assert read > 8 if prompts else read == 0, "some pieces do fit between two ticks"
    assert late["beside"] <= late["alone"] + MOST_GROWTH_SECONDS


def _lateness(engine: Engine, talker: Talker, stepper: ProbeStepper) -> float:
    """How long frames waited for their step, but for the three latest of 15."""
    waited = []
    for index in range(15):
        began = time.monotonic()
        pace(1, lambda _, value=index: talker.say(value + 1.0), [talker])  # type: ignore[misc]
        waited.append(next(heard.at for heard in reversed(stepper.heard) if heard.value == index + 1.0) - began)
    return sorted(waited)[-4]


def test_what_takes_too_long_beside_a_talk_waits_until_it_is_over() -> None:
    stepper = KeepingStepper(piece_seconds=0.09)
    engine = Engine(stepper)
    with engine:
        talker = join_talking(engine)
        engine.readying.wanted = _wanted("e" * 100)
        _start(engine)
        pace(8, lambda index: talker.say(1.0), [talker])
        assert len(stepper.done) <= 2, "a piece is done to learn how long one takes"
        engine.leave(talker.session)
        _ready(engine, 1)


def test_the_end_does_not_wait_for_it() -> None:
    stepper = KeepingStepper(piece_seconds=0.01)
    engine = Engine(stepper)
    engine.readying.wanted = _wanted(*["f" * 2000] * 9)
    engine.start()
    until(lambda: stepper.done)
    began = time.monotonic()
    engine.stop()
    assert time.monotonic() - began < 1.0 and len(stepper.done) < 200


def test_without_kept_prompts_a_start_takes_what_reading_took() -> None:
    """As an echo or the plain engine: nothing is read beforehand, and real starts teach how long they take."""
    stepper = ProbeStepper(prime_seconds=0.05)
    engine = Engine(stepper)
    engine.readying.wanted = _wanted(*PROMPTS)
    engine.measure()
    start = engine.readying.of("a")
    assert not start.ready and 0.05 <= start.seconds < 0.1
    with engine:
        stepper.prime_seconds = 0.1
        for _ in range(8):
            session = engine.join(_choices(PROMPTS[0]))
            until(lambda session=session: is_talking(session))  # type: ignore[misc]
            engine.leave(session)
            until(lambda: engine.status.free == 1)
        assert engine.status.prompts_ready == 0 and engine.readying.of("b").seconds == pytest.approx(0.1, abs=0.04)


def test_a_start_takes_time_by_the_prompt_s_length_and_known_prompts_teach_nothing() -> None:
    stepper = KeepingStepper(piece_seconds=0.02, room=0)
    engine = Engine(stepper)
    engine.readying.wanted = _wanted("g" * 30, "h" * 60)
    engine.measure()
    with engine:
        until(lambda: engine.readying.of("h").seconds > 1.5 * engine.readying.of("nobody").seconds)
        assert engine.readying.of("nobody").seconds == pytest.approx(0.06, abs=0.03), "as the one that was measured"
        before = engine.readying.of("h")
        assert before.seconds == pytest.approx(0.12, abs=0.06)
        session = engine.join(_choices("g" * 30))
        until(lambda: is_talking(session))
        assert stepper.done[1:] == [("visitor", "g" * 30)] * 3, "once, while it was measured"
        assert engine.readying.of("h") == before
