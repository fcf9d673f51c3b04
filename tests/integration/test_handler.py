"""The handler that stands between FastRTC and the engine: a call's sound, words and sliders, without a browser."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.call import PACKET_SAMPLES, Call, args, eventually, hush, play_out, talking, tone
from support.engine import CHOICES, ProbeStepper, is_talking

from personaplex_app.assemble import build_stepper
from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.facade import YOU_STOPPED, Engine
from personaplex_app.engine.slots import full_sentence
from personaplex_app.settings import EngineChoice
from personaplex_app.web.handler import WIRE_RATE_HZ
from personaplex_app.web.pacing import MOST_WAITING_MS

HZ = 440.0


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=1)


def _loudness(sound: np.ndarray, hz: float) -> float:
    """Amplitude of one frequency."""
    turn = np.exp(-2j * np.pi * hz * np.arange(len(sound)) / WIRE_RATE_HZ)
    return float(2 * np.abs(np.mean(sound * turn)))


def test_what_is_said_comes_back_and_little_waits(engine: Engine) -> None:
    async def story() -> None:
        call = Call(engine)
        call.start(args(), tone(HZ))
        await asyncio.sleep(2.5)
        steady = np.concatenate(call.played[-50:])
        await call.stop()
        loudness = [_loudness(packet, HZ) for packet in steady.reshape(-1, PACKET_SAMPLES)]
        assert np.median(loudness) == pytest.approx(0.5, abs=0.05)
        assert call.longest_ms <= MOST_WAITING_MS + 80
        assert call.goodbyes == [], "nobody said goodbye"

    play_out(story)


def test_the_page_follows_the_call(engine: Engine) -> None:
    async def story() -> None:
        call = Call(engine)
        await talking(call)
        await eventually(lambda: call.shown.status.startswith("Talking."))
        assert call.shown == call.view and "seed 7" in call.view.applied
        await call.stop()
        assert call.view.over and call.view.status == f"Ended: {YOU_STOPPED}"
        assert engine.status.free == 1 or await eventually(lambda: engine.status.free, 1.0)

    play_out(story)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"audio_temperature": float("nan")}, "Audio temperature must be a number from 0 to 2"),
        ({"audio_temperature": -1}, "Audio temperature must be from 0 to 2"),
        ({"text_temperature": 99}, "Text temperature must be from 0 to 2"),
        ({"audio_temperature": 10**400}, "Audio temperature must be a number from 0 to 2"),
        ({"audio_top_k": -5}, "Audio top-k must be from 0"),
        ({"seed": "abc"}, "The seed must be a whole number"),
        ({"seed": []}, "The seed must be a whole number"),
        ({"voice": "../../etc/passwd"}, "is no voice name"),
        ({"voice": "NATF0"}, "The echo has no voices of its own"),
        ({"prompt": {"a": 1}}, "The prompt must be a text"),
    ],
)
def test_values_that_cannot_be_used_end_in_a_sentence(engine: Engine, changed: dict[str, Any], sentence: str) -> None:
    async def story() -> None:
        call = Call(engine)
        call.start(args(**changed), hush)
        await eventually(lambda: call.goodbyes, what="goodbye")
        await asyncio.sleep(0.2)
        await call.stop()
        assert len(call.goodbyes) == 1 and sentence in call.goodbyes[0]
        assert call.view.over and call.view.status == call.goodbyes[0] == call.shown.status
        assert engine.status.free == 1

    play_out(story)


@pytest.mark.parametrize("seed", ["", None, "-1"])
def test_no_seed_draws_one_and_shows_it(engine: Engine, seed: Any) -> None:
    async def story() -> None:
        call = Call(engine)
        await talking(call, args(seed=seed))
        assert f"seed {call.session.choices.seed}." in call.handler._view().applied
        assert call.session.choices.seed >= 0
        await call.stop()

    play_out(story)


def test_a_prompt_without_end_is_refused_in_words(cache_outside_home: Path) -> None:
    async def story(engine: Engine) -> None:
        call = Call(engine)
        call.start(args(prompt="x" * 100_000), hush)
        await eventually(lambda: call.goodbyes, what="goodbye")
        await call.stop()
        assert "100,000 characters" in call.goodbyes[0] and engine.status.free == 1

    with Engine(build_stepper(EngineChoice("mini", cache_outside_home, device="cpu"))) as engine:
        play_out(lambda: story(engine))


def test_a_full_house_is_told_at_once(engine: Engine) -> None:
    async def story() -> None:
        first, second = Call(engine, name="first"), Call(engine, name="second")
        await talking(first)
        second.start(args(), hush)
        assert await eventually(lambda: second.goodbyes, what="refusal") < 0.5
        assert second.goodbyes == [full_sentence(1)] and second.view.over
        await second.stop()
        assert is_talking(first.session), "and who talks goes on"
        await first.stop()

    play_out(story)


def test_sliders_act_in_mid_call_from_the_frame_that_is_named(engine: Engine, stepper: ProbeStepper) -> None:
    async def story() -> None:
        call = Call(engine)
        await talking(call)
        await eventually(lambda: call.session.counters.stepped > 3)
        call.move(audio_temperature=0.15, audio_top_k=9.0)
        wanted = SamplingSettings(audio_temperature=0.15, audio_top_k=9)
        await eventually(lambda: call.session.applied.sampling == wanted, what="applied")
        assert stepper.sampling == {0: wanted} and call.session.applied.from_frame > 3
        named = f"From frame {call.session.applied.from_frame} ("
        await eventually(lambda: call.shown.applied.startswith(named))
        assert "audio temperature 0.15, " in call.shown.applied
        await call.stop()

    play_out(story)


@pytest.mark.parametrize("value", [float("nan"), 99, None, 10**400], ids=["nan", "99", "nothing", "huge"])
def test_a_slider_that_cannot_be_is_said_and_the_session_lives(
    engine: Engine, stepper: ProbeStepper, value: Any
) -> None:
    async def story() -> None:
        call = Call(engine)
        await talking(call)
        call.move(text_temperature=value)
        await eventually(lambda: "ext temperature must be" in call.shown.status, what="the remark")
        assert is_talking(call.session) and stepper.sampling == {0: CHOICES.sampling}
        call.move(text_temperature=0.2)
        await eventually(lambda: call.session.applied.sampling.text_temperature == 0.2)
        await eventually(lambda: call.shown.status == "Talking. Speak whenever you like.", what="no remark")
        await call.stop()

    play_out(story)
