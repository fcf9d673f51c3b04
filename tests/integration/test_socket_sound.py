"""A talk whose sound travels on the socket: it comes back whole and soon, whatever other senders do, and it resumes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from support.call import eventually, play_out
from support.counting import Counting, counted, counting
from support.engine import ProbeStepper, until
from support.front import OpenFront, level, open_front

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine import tick_loop
from personaplex_app.engine.call_clock import CallLimits
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.engine.session import Session
from personaplex_app.engine.talk_queues import HEARD_FRAMES, SPOKEN_FRAMES
from personaplex_app.web.desk import LOST, TOO_LATE
from personaplex_app.web.talk import NEXT_CALL


@pytest.fixture
def stepper() -> ProbeStepper:
    return Counting(slots=1)


@pytest.fixture
def three_lines() -> Iterator[Engine]:
    with Engine(ProbeStepper(slots=3)) as engine:
        yield engine


def _session(front: OpenFront) -> Session:
    (session,) = [talk.session for talk in front.desk._talks.values() if talk.session]
    return session


# What is said comes back.


@pytest.mark.timed
def test_every_frame_comes_back_whole_in_order_and_soon(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            view = await caller.talk(seed="1")
            assert (view["path"], view["resumed"], view["sentence"][:15]) == ("socket", False, "Over the socket")
            caller.speak(counting)
            await eventually(lambda: len(caller.heard) >= 25, what="two seconds of sound")
            assert {len(frame) for frame in caller.heard} == {FRAME_SAMPLES}
            assert all(np.ptp(frame) == 0 for frame in caller.heard)
            numbers = counted(caller)
            assert numbers == list(range(1, len(numbers) + 1)), "none is lost, none is swapped"
            gaps = np.diff(caller.heard_at)
            assert np.median(gaps) == pytest.approx(FRAME_SECONDS, abs=0.02)

    play_out(story)


def test_sound_in_pieces_of_any_even_length_is_the_same_sound(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.talk()
            sound = np.concatenate([counting(number) for number in range(3)])
            raw = (sound * 32768).astype("<i2").tobytes()
            for start, end in ((0, 2), (2, 1000), (1000, 7680), (7680, len(raw))):
                await caller.send(raw[start:end])
            await eventually(lambda: len(counted(caller)) == 3, what="three frames")
            assert counted(caller) == [1, 2, 3]

    play_out(story)


def test_words_are_appended_and_begin_anew_with_a_talk(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            for _ in range(2):
                await caller.talk(seed="1")
                caller.speak(level(0.0))
                first = await caller.next("words")
                assert first["from_start"] and first["text"].startswith("1 2"[: len(first["text"])])
                text = first["text"]
                while len(text) < 20:
                    more = await caller.next("words")
                    assert not more["from_start"]
                    text += more["text"]
                assert text.split()[:6] == ["1", "2", "3", "4", "5", "6"]
                await caller.mute()
                await caller.say("stop")
                assert (await caller.next("ended"))["sentence"] == YOU_STOPPED
                await eventually(lambda: engine.status.free)
                assert engine.parked.count == 0, "a clean stop leaves nothing"

    play_out(story)


# Sliders.


def test_set_moves_what_it_names_and_the_frame_is_told(engine: Engine, stepper: Counting) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.talk(prompt="Be kind.", text_temperature=0.3, seed="7")
            caller.speak(level(0.0))
            await eventually(lambda: _session(front).counters.stepped > 3)
            await caller.say("set", choices={"audio_temperature": 0.15, "audio_top_k": 9.0})
            told = await caller.next("talk", fits=lambda told: "audio temperature 0.15" in told["applied"])
            wanted = SamplingSettings(audio_temperature=0.15, text_temperature=0.3, audio_top_k=9)
            assert stepper.sampling == {0: wanted}, "what was not named stays"
            applied = _session(front).applied
            assert applied.from_frame > 3 and told["applied"].startswith(f"From frame {applied.from_frame} (")
            assert NEXT_CALL not in told["sentence"] and told["applied"].endswith("seed 7.")

    play_out(story)


@pytest.mark.parametrize("value", [float("nan"), 99, None, 10**400], ids=["nan", "99", "nothing", "huge"])
def test_a_slider_that_cannot_be_is_said_and_the_talk_goes_on(engine: Engine, stepper: Counting, value: object) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.talk()
            caller.speak(level(0.0))
            await caller.say("set", choices={"text_temperature": value})
            await caller.next("talk", fits=lambda told: "ext temperature must be" in told["sentence"])
            assert stepper.sampling == {0: SamplingSettings()}
            await caller.say("set", choices={"text_temperature": 0.2})
            await caller.next("talk", fits=lambda told: "text temperature 0.2" in told["applied"])
            assert "must be" not in caller.told[-1].get("sentence", "")

    play_out(story)


def test_another_prompt_holds_from_the_next_call(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.talk(prompt="Be kind.")
            caller.speak(level(0.0))
            await caller.say("set", choices={"prompt": "Be strict."})
            await caller.next("talk", fits=lambda told: NEXT_CALL in told["sentence"])
            assert _session(front).choices.prompt == "Be kind."

    play_out(story)


# A lost connection.


def test_a_talk_goes_on_after_a_lost_connection(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front:
            async with front.caller("anna") as caller:
                await caller.talk(seed="1", audio_temperature=0.4)
                caller.speak(counting)
                await eventually(lambda: len(caller.heard) >= 8)
                grant = [told for told in caller.told if told["type"] == "talk"][-1]["grant"]
                session = _session(front)
                await caller.lose()
            await eventually(lambda: engine.status.free, 1.0, "the slot is free at once")
            tokens, heard = list(session.text_tokens), session.counters.heard
            async with front.caller("anna") as back:
                await back.say("resume", grant=grant, path="socket")
                view = await back.come_in()
                assert view["resumed"] and view["grant"] != grant and "audio temperature 0.4" in view["applied"]
                words = next(told for told in back.told if told["type"] == "words")
                assert words["from_start"] and words["text"].split()[: len(tokens)] == [str(token) for token in tokens]
                resumed = _session(front)
                assert resumed.counters.heard == heard
                back.speak(counting)
                await eventually(lambda: len(resumed.text_tokens) >= len(tokens) + 8)
                assert resumed.text_tokens == list(range(1, len(resumed.text_tokens) + 1))
                assert resumed.counters.heard > heard
                await back.mute()
                await back.say("stop")
                await back.next("ended")
                for spent in (grant, view["grant"]):
                    await back.say("resume", grant=spent)
                    assert (await back.next("refused"))["code"] == "grant_unknown"

    play_out(story)


def test_sound_that_stops_coming_is_told_and_taken_up_on_the_same_socket(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("personaplex_app.web.look_out.SILENT_PATH_SECONDS", 0.5)

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            await caller.talk()
            caller.speak(counting)
            await eventually(lambda: len(caller.heard) >= 3)
            await caller.mute()
            lost = await caller.next("lost")
            assert (lost["sentence"], lost["seconds"]) == (LOST, 25)
            await eventually(lambda: engine.status.free == 1)
            await caller.say("resume", grant=lost["grant"], path="socket")
            assert (await caller.come_in())["resumed"]

    play_out(story)


def test_a_stop_after_the_line_was_lost_leaves_nothing_to_come_back_to(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("personaplex_app.web.look_out.SILENT_PATH_SECONDS", 0.4)

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller, front.caller("anna") as other:
            await caller.talk()
            lost = await caller.next("lost")
            await caller.say("stop")
            await caller.say("ping", at=1)
            await caller.next("pong")
            await other.say("resume", grant=lost["grant"], path="socket")
            assert (await other.next("refused"))["code"] == "grant_unknown"

    play_out(story)


def test_a_fault_while_a_talk_begins_is_told_and_the_socket_stays(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the voice is gone")

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            monkeypatch.setattr(engine.stepper, "open", fail)
            await caller.ask()
            await caller.next("admitted")
            await caller.say("sound")
            assert (await caller.next("refused"))["code"] == "server_fault"
            monkeypatch.undo()
            await caller.talk()

    play_out(story)


def _no_view(*_: object) -> None:
    raise RuntimeError("no view")


def test_a_fault_while_a_client_is_told_things_is_no_closed_socket(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            view = await caller.talk()
            monkeypatch.setattr("personaplex_app.web.teller.talk_view", _no_view)
            lost = await caller.next("lost")
            monkeypatch.undo()
            assert lost["grant"] == view["grant"]
            await caller.say("resume", grant=lost["grant"], path="socket")
            assert (await caller.come_in())["resumed"]

    play_out(story)


def test_a_talk_that_is_lost_before_it_begins_has_no_grant_and_is_asked_for_anew(
    engine: Engine, stepper: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = threading.Event()
    prime = stepper.prime

    def slow_prime(slot: int, opening: Choices) -> None:
        assert reads.wait(20)
        prime(slot, opening)

    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller:
            await caller.ask()
            await caller.next("admitted")
            await caller.say("sound")
            view = await caller.next("talk")
            assert (view["state"], view["grant"]) == ("priming", "")
            with monkeypatch.context() as patch:
                patch.setattr("personaplex_app.web.teller.talk_view", _no_view)
                ended = await caller.next("ended")
            assert (ended["code"], ended["sentence"]) == ("lost", LOST)
            reads.set()
            await eventually(lambda: engine.status.free, what="its slot")
            await caller.talk()

    stepper.prime = slow_prime  # type: ignore[method-assign]
    play_out(story)


def test_a_grant_is_for_one_and_a_stop_makes_it_worthless(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller("anna") as caller, front.caller("bert") as other:
            view = await caller.talk()
            await caller.say("stop")
            await caller.next("ended")
            for grant in (view["grant"], view["grant"][:-1], ""):
                await other.say("resume", grant=grant)
                refused = await other.next("refused")
                assert refused["code"] in ("grant_unknown", "bad_message")
            assert refused["sentence"] != TOO_LATE and engine.status.free == 1

    play_out(story)


# Time.


@pytest.mark.timed
def test_silence_is_warned_of_and_ends(engine: Engine) -> None:
    async def story() -> None:
        limits = CallLimits(idle_warning_seconds=0.6, idle_end_seconds=1.4)
        async with open_front(engine, call_limits=limits) as front, front.caller() as caller:
            await caller.talk()
            caller.speak(level(0.0))
            warning = await caller.next("warning")
            assert (warning["code"], warning["seconds"]) == ("idle", 1) and "still there" in warning["sentence"]
            ended = await caller.next("ended")
            assert (ended["code"], ended["sentence"]) == ("idle", "Nothing was said for 1 s.")
            await caller.mute()
            await caller.ask()
            await caller.next("admitted")

    play_out(story)


@pytest.mark.timed
def test_who_speaks_after_the_warning_is_told_that_the_talk_goes_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("personaplex_app.web.talk.LISTEN_AFTER_SECONDS", 0.1)

    async def story() -> None:
        limits = CallLimits(idle_warning_seconds=0.6, idle_end_seconds=60.0)
        async with open_front(engine, call_limits=limits) as front, front.caller() as caller:
            await caller.talk()
            caller.speak(level(0.0))
            await caller.next("warning")
            (talk,) = front.desk._talks.values()
            assert talk.clock is not None
            talk.clock.spoke(talk.last_packet_at)  # what the detector would find
            assert (await caller.next("warning"))["sentence"] == "", "it is taken back"
            told = await caller.next("talk")
            assert told["sentence"] == "Over the socket. Talking. Speak whenever you like."

    play_out(story)


@pytest.mark.timed
def test_the_limit_is_warned_of_and_ends(engine: Engine) -> None:
    async def story() -> None:
        limits = CallLimits(call_seconds=1.5, call_warning_seconds=1.0)
        async with open_front(engine, call_limits=limits) as front, front.caller() as caller:
            await caller.talk()
            caller.speak(level(0.0))
            assert (await caller.next("warning"))["code"] == "limit"
            ended = await caller.next("ended")
            assert ended["code"] == "limit" and engine.parked.count == 0

    play_out(story)


# Faults.


@pytest.mark.timed
def test_a_failed_step_is_told_within_a_second(engine: Engine, stepper: Counting) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.talk()
            caller.speak(counting)
            await eventually(lambda: caller.heard)
            stepper.fails.add("step")
            ended = await caller.next("ended", 1.0)
            assert (ended["code"], ended["sentence"]) == ("fault", tick_loop.STEP_FAILED)
            await caller.mute()
            stepper.fails.clear()
            until(lambda: engine.status.free)
            await caller.talk()

    play_out(story)


# Other senders.


@pytest.mark.timed
def test_fast_and_slow_senders_leave_an_honest_one_alone(three_lines: Engine) -> None:
    async def story() -> None:
        async with (
            open_front(three_lines) as front,
            front.caller("honest") as honest,
            front.caller("fast") as fast,
            front.caller("slow") as slow,
        ):
            sessions: dict[str, Session] = {}
            for name, caller in (("honest", honest), ("fast", fast), ("slow", slow)):
                await caller.talk()
                sessions[name] = next(
                    talk.session
                    for talk in front.desk._talks.values()
                    if talk.ticket.visitor == name and talk.session is not None
                )
            honest.speak(counting)
            fast.speak(counting, speed=10.0)
            slow.speak(counting, speed=0.5)
            await eventually(lambda: len(honest.heard) >= 50, 8.0, "four seconds of sound")
            numbers = counted(honest)
            assert numbers == list(range(1, len(numbers) + 1))
            assert sessions["honest"].counters.heard_dropped == 0
            quick = sessions["fast"].counters
            assert quick.heard_dropped > 5 * quick.stepped, "what is too much is dropped and counted"
            heard_frames, spoken_frames = sessions["fast"].queues.waiting
            assert heard_frames <= HEARD_FRAMES and spoken_frames <= SPOKEN_FRAMES
            late = sessions["slow"].counters
            assert late.missed + late.silence_filled > 15, "and what is missing is counted too"
            assert counted(slow) == list(range(1, len(counted(slow)) + 1))
            assert len(fast.heard) <= len(honest.heard) + 10

    play_out(story)


@pytest.mark.timed
def test_who_does_not_read_holds_nobody_up(three_lines: Engine) -> None:
    async def story() -> None:
        async with open_front(three_lines) as front, front.caller("deaf") as deaf, front.caller("honest") as honest:
            await deaf.talk()
            deaf.connection.transport.pause_reading()
            deaf.speak(counting)
            await honest.talk()
            honest.speak(counting)
            await eventually(lambda: len(honest.heard) >= 25, 5.0)
            numbers = counted(honest)
            assert numbers == list(range(1, len(numbers) + 1))
            deaf.connection.transport.resume_reading()
            await asyncio.sleep(0.1)

    play_out(story)
