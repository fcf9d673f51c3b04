"""The loop guard through the real engine and the socket: a persona that goes round in circles, and what is done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from support.call import eventually, play_out
from support.engine import ProbeStepper, until
from support.front import Caller, Message, OpenFront, level, open_front

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.loop_guard import STEADY_FRAMES, steadied
from personaplex_app.engine.session import Session

CHOSEN = SamplingSettings(0.8, 0.7, 250, 25, 1.1)
STEADY = steadied(CHOSEN)
SPEED = 10.0
BEGINS, ENDS = 10, 24  # the frames in which it says the same, every third one
ALARM = BEGINS + 4 * 3 + 3  # a word is whole three frames after it


class LoopingStepper(ProbeStepper):
    """An echo that says one word five times.

    Attributes:
        set: frames before which the sampling was changed, and to what.
    """

    def __init__(self) -> None:
        super().__init__(slots=1)
        self.has_words = True
        self.set: list[tuple[int, SamplingSettings]] = []

    def text(self, token: int) -> bytes:
        return b" sorry," if BEGINS <= token < ENDS and (token - BEGINS) % 3 == 0 else b""

    def set_sampling(self, slot: int, sampling: SamplingSettings) -> None:
        self.set.append((self.counts[slot], sampling))
        super().set_sampling(slot, sampling)


@pytest.fixture
def stepper() -> LoopingStepper:
    return LoopingStepper()


@asynccontextmanager
async def _talking(engine: Engine, **choices: object) -> AsyncIterator[tuple[OpenFront, Caller]]:
    """Seed 0: a step's token is its frame."""
    async with open_front(engine, sampling=CHOSEN) as front, front.caller() as caller:
        await caller.talk(seed=0, **choices)
        caller.speak(level(0.1), SPEED)
        yield front, caller


def _counted(front: OpenFront) -> list[str]:
    lines = front.desk.metrics.render()[0].decode().splitlines()
    return sorted(line.removeprefix("personaplex_") for line in lines if "_loop_" in line and line.endswith(" 1.0"))


def _short(message: Message) -> tuple[int, str, str, str]:
    return message["number"], message["action"], message["reason"], message["phrase"]


def test_a_loop_is_told_steadied_put_back_and_counted(engine: Engine, stepper: LoopingStepper) -> None:
    async def story() -> None:
        async with _talking(engine) as (front, caller):
            told = await caller.next("guard")
            assert _short(told) == (0, "steadied", "repeats", "sorry")
            assert told["sentence"] == 'The persona keeps saying "sorry". Its sampling is steadied for 3 s.'
            assert told["second"] == round(ALARM * 0.08, 3)
            view = await caller.next("talk", fits=lambda talk: "penalty 1.4" in talk["applied"])
            assert view["applied"].startswith(f"From frame {ALARM + 1} (")
            told = await caller.next("guard")
            assert _short(told) == (1, "put_back", "repeats", "")
            await caller.next("talk", fits=lambda talk: "penalty 1.1" in talk["applied"])
            assert stepper.set == [(ALARM + 1, STEADY), (ALARM + 1 + STEADY_FRAMES, CHOSEN)]
            await eventually(
                lambda: (
                    _counted(front)
                    == [
                        'loop_alarms_total{reason="repeats"} 1.0',
                        'loop_guard_total{action="put_back"} 1.0',
                        'loop_guard_total{action="steadied"} 1.0',
                    ]
                )
            )
            assert stepper.threads == {"tick"}

    play_out(story)


def test_a_slider_moved_meanwhile_is_what_is_put_back(engine: Engine, stepper: LoopingStepper) -> None:
    async def story() -> None:
        async with _talking(engine) as (_, caller):
            await caller.next("talk", fits=lambda talk: "penalty 1.4" in talk["applied"])
            await caller.say("set", choices={"text_temperature": 0.9})
            await caller.next("guard", fits=lambda told: told["action"] == "put_back")
            await eventually(lambda: len(stepper.set) == 3)
            mine = replace(CHOSEN, text_temperature=0.9)
            assert [sampling for _, sampling in stepper.set] == [STEADY, replace(STEADY, text_temperature=0.9), mine]

    play_out(story)


@pytest.mark.parametrize("how", ["asked", "set"])
def test_forbidden_it_tells_and_changes_nothing(engine: Engine, stepper: LoopingStepper, how: str) -> None:
    async def story() -> None:
        async with _talking(engine, **({"loop_guard": False} if how == "asked" else {})) as (front, caller):
            if how == "set":
                await caller.say("set", choices={"loop_guard": False})
            told = await caller.next("guard")
            assert _short(told) == (0, "noticed", "repeats", "sorry")
            (talk,) = front.desk._talks.values()
            await caller.say("set", choices={"seed": 1})  # what is not named stays
            await eventually(lambda: talk.session and talk.session.counters.stepped > ALARM + 2 * STEADY_FRAMES)
            assert stepper.set == [] and stepper.sampling == {0: CHOSEN} and not talk.guarded
            await eventually(lambda: _counted(front) == ['loop_alarms_total{reason="repeats"} 1.0'])
            assert [message["type"] for message in caller.told].count("guard") == 1

    play_out(story)


def test_forbidden_meanwhile_the_visitor_s_sampling_is_back_at_once(engine: Engine, stepper: LoopingStepper) -> None:
    async def story() -> None:
        async with _talking(engine) as (_, caller):
            await caller.next("talk", fits=lambda talk: "penalty 1.4" in talk["applied"])
            await caller.say("set", choices={"loop_guard": False})
            await caller.next("guard", fits=lambda told: told["action"] == "put_back")
            await eventually(lambda: len(stepper.set) == 2)
            (_, first), (frame, last) = stepper.set
            assert (first, last) == (STEADY, CHOSEN) and frame < ALARM + STEADY_FRAMES

    play_out(story)


def test_what_is_no_yes_or_no_is_refused_in_words(engine: Engine) -> None:
    async def story() -> None:
        async with open_front(engine) as front, front.caller() as caller:
            await caller.ask(loop_guard="yes")
            refused = await caller.next("refused")
            assert refused["sentence"] == "The loop guard must be true or false, not 'yes'."
            await caller.talk()
            await caller.say("set", choices={"loop_guard": None})
            await caller.next("talk", fits=lambda talk: "must be true or false" in talk["sentence"])

    play_out(story)


def test_a_resumed_talk_is_told_all_of_it_and_goes_on_in_the_midst(engine: Engine, stepper: LoopingStepper) -> None:
    async def story() -> None:
        async with open_front(engine, sampling=CHOSEN) as front:
            async with front.caller("anna") as caller:
                await caller.talk(seed=0)
                caller.speak(level(0.1), SPEED)
                await caller.next("talk", fits=lambda talk: "penalty 1.4" in talk["applied"])
                (grant,) = {message["grant"] for message in caller.told if message["type"] == "talk"} - {""}
                await caller.lose()
            async with front.caller("anna") as caller:
                await caller.say("resume", grant=grant)
                await caller.come_in()
                (talk,) = front.desk._talks.values()
                assert talk.asked == CHOSEN and talk.guarded
                caller.speak(level(0.1), SPEED)
                await caller.next("talk", fits=lambda talk: "penalty 1.1" in talk["applied"])
                told = [_short(message)[:2] for message in caller.told if message["type"] == "guard"]
                assert told == [(0, "steadied"), (1, "put_back")]
        assert stepper.set == [(ALARM + 1, STEADY), (ALARM + 1 + STEADY_FRAMES, CHOSEN)]

    play_out(story)


class Hears:
    """A detector that finds speech in everything."""

    def heard(self, pcm: Pcm) -> bool:
        return True


@pytest.mark.parametrize("speaks", [True, False])
def test_a_persona_without_a_word_is_told_where_the_visitor_speaks(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, speaks: bool
) -> None:
    monkeypatch.setattr("personaplex_app.web.talk.LISTEN_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("personaplex_app.engine.loop_guard.SILENT_FRAMES", 5)
    if speaks:
        monkeypatch.setattr("personaplex_app.web.talk.SpeechDetector", Hears)

    async def story() -> None:
        async with _talking(engine) as (_, caller):
            told = await caller.next("guard")
            assert _short(told)[1:] == (("steadied", "silent", "") if speaks else ("steadied", "repeats", "sorry"))

    play_out(story)


@pytest.fixture
def talk() -> Iterator[Session]:
    """A talk over the plain echo, which has no words, while its visitor speaks."""
    with Engine(ProbeStepper()) as engine:
        yield engine.join(Choices("", "none", CHOSEN, 0, loop_guard=True))


def test_the_echo_is_not_called_mute(talk: Session) -> None:
    until(lambda: talk.state.value == "talking")
    for frame in range(1000):
        assert talk.sampling.saw(b"", frame, True) is None
