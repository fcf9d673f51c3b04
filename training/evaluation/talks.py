"""Holds a talk between a caller and a checkpoint's stepper, and marks it.

In: a stepper, a persona, a voice, a line. Out: marks, both sides' sound, milliseconds of every frame.
Must not know: how the stepper works inside.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from personaplex_app.controls import Choices
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.records.transcript import Transcript
from training.evaluation.caller import FRAME, FRAME_SECONDS, Caller, Exchange, Plan
from training.evaluation.lines import Line
from training.evaluation.listener import Listener
from training.evaluation.marks import Mark, mark
from training.evaluation.voices import said_by
from training.speech.levels import Sound
from training.world.answers import right_answers
from training.world.personas import Persona
from training.world.questions import Asked, ask, draw_question

INTERRUPTED_EVERY = 7  # questions
LONG_ANSWERS = ("about", "can", "joke")
OWN_PRODUCT_CHANCE = 0.7  # that somebody asks for what is sold here


@dataclass(frozen=True)
class Cast:
    """Who talks with whom, over which line."""

    name: str
    persona: Persona
    agent_voice: str
    voice: str
    line: Line
    seed: int


@dataclass
class Held:
    """A talk that was held. caller, agent: float32 of the same length."""

    marks: list[Mark]
    caller: Sound
    agent: Sound
    frame_ms: list[float]


def plans(persona: Persona, rng: Random, intents: list[str] | None) -> Iterator[Plan]:
    """Questions without end, in wordings that training never had; every seventh answer is interrupted."""
    number = 0
    while True:
        number += 1
        if number % INTERRUPTED_EVERY == 0 and intents is None:
            yield Plan(ask(rng.choice(LONG_ANSWERS), rng, held_out=True), ask("stop", rng, held_out=True))
            continue
        asked = draw_question(persona.style, rng, held_out=True)
        if intents is not None and asked.intent not in intents:
            continue
        if asked.intent in ("price_of", "have") and persona.items and rng.random() < OWN_PRODUCT_CHANCE:
            asked = ask(asked.intent, rng, held_out=True, slot=rng.choice(persona.items)[0])
        yield Plan(asked)


def hold(
    stepper: SpeechStepper,
    cast: Cast,
    seconds: float,
    listener: Listener,
    kokoro_voices: Path,
    intents: list[str] | None = None,
) -> Held:
    """One talk of so many seconds, and its marks."""

    def say(asked: Asked) -> Sound:
        return cast.line.voice(said_by(cast.voice, asked.text, kokoro_voices))

    caller = Caller(plans(cast.persona, Random(cast.seed), intents), say)
    noise = np.random.default_rng(cast.seed)
    stepper.prime(
        0, stepper.open(Choices(cast.persona.prompt, cast.agent_voice, stepper.config.sampling, cast.seed))
    )  # fmt: skip
    transcript, said, spoken, frame_ms = Transcript(), [], [], []
    for frame in range(round(seconds / FRAME_SECONDS)):
        heard = np.clip(caller.speak() + cast.line.noise(FRAME, noise), -1, 1)
        began = time.perf_counter()
        step = stepper.step({0: heard})[0]
        frame_ms.append(1000 * (time.perf_counter() - began))
        transcript.add(stepper.text(step.text_token), frame)
        caller.hear(step.pcm)
        said.append(heard)
        spoken.append(step.pcm)
    agent = np.concatenate(spoken)
    marks = _marked(cast, caller, transcript, agent, listener)
    return Held(marks, np.concatenate(said), agent, frame_ms)


def _marked(cast: Cast, caller: Caller, transcript: Transcript, agent: Sound, listener: Listener) -> list[Mark]:
    """Every exchange that was over when the talk ended."""
    marks: list[Mark] = []
    last: list[str] | None = None
    names = {"talk": cast.name, "voice": cast.voice, "line": cast.line.name}
    for exchange in caller.exchanges:
        if exchange.until < 0:
            break
        answers = right_answers(cast.persona, exchange.asked, last)
        text = _text_of(transcript, exchange)
        heard = listener.listen(agent[exchange.ends * FRAME : exchange.until * FRAME]) if text else ""
        marks.append(mark(exchange, answers, text, heard, caller.loud, names))
        if exchange.asked.intent not in ("thanks", "bye", "stop", "repeat"):
            last = answers[0]
    return marks


def _text_of(transcript: Transcript, exchange: Exchange) -> str:
    first, until = exchange.ends * FRAME_SECONDS, exchange.until * FRAME_SECONDS
    return " ".join(word.text for word in transcript.words if first - 1e-6 <= word.start_seconds < until - 1e-6)
