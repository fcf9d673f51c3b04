"""The trained miniature answers: asked aloud, it says its persona's facts aloud, in the voice that was chosen."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.pitch import median_pitch_hz
from support.speech import conversation, listen, pause

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import Pcm, split_frames
from personaplex_app.controls import Choices
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.records.transcript import Transcript
from personaplex_app.settings import EngineChoice

LEAD_SECONDS, GAP_SECONDS, TAIL_SECONDS = 6.5, 3.2, 1.2
SEED = 0
FACTS_NEEDED = 4


@dataclass(frozen=True)
class Persona:
    """A service persona, its questions, and for each question what a right answer contains."""

    prompt: str
    questions: list[str]
    answers: list[str]


def _service(company: str, kind: str, name: str, product: str, price: int, hour: int, city: str, days: str) -> Persona:
    number = {"two": 2, "three": 3}[days]
    return Persona(
        f"You work for {company} which is a {kind} and your name is {name}. Information: A {product} costs ${price}. "
        f"Open until {hour} PM. Located in {city}. Delivery takes {number} days.",
        [
            "What is your name?",
            "What company do you work for?",
            f"How much is the {product}?",
            "When do you close?",
            "Where are you located?",
            "How long does delivery take?",
        ],
        [name, company.replace(" ", " ?"), rf"\${price}\b", rf"\b{hour} p", city, rf"\b({number}|{days}) days"],
    )


SPOON = _service("Silver Spoon", "restaurant", "Victor", "cake", 30, 8, "Chicago", "two")
TECH = _service("Tech World", "computer store", "Kate", "phone", 45, 6, "Denver", "three")
TALKS = {"NATF0": (SPOON, "NATF0"), "NATM0": (SPOON, "NATM0"), "other facts": (TECH, "NATM0")}


@dataclass
class Talk:
    """What the agent said: its sound, its transcript, and what Whisper hears after each question."""

    pcm: Pcm
    transcript: Transcript
    heard: list[str]


def _step_through(stepper: SpeechStepper, asked: list[Pcm]) -> list[tuple[Pcm, Transcript]]:
    """All talks at once, a slot each."""
    frames = [split_frames(pcm) for pcm in asked]
    spoken: list[list[Pcm]] = [[] for _ in asked]
    transcripts = [Transcript() for _ in asked]
    for index in range(max(len(one) for one in frames)):
        steps = stepper.step({slot: one[index] for slot, one in enumerate(frames) if index < len(one)})
        for slot, step in steps.items():
            spoken[slot].append(step.pcm)
            transcripts[slot].add(stepper.text(step.text_token), index)
    return [(np.concatenate(pieces), told) for pieces, told in zip(spoken, transcripts, strict=True)]


@pytest.fixture(scope="module")
def talks(cache_outside_home: Path) -> dict[str, Talk]:
    """Both voices with one persona, and one of them with other facts."""
    stepper = build_stepper(EngineChoice("demo", cache_outside_home, device="cpu", slots=len(TALKS)))
    asked, windows = [], []
    for slot, (persona, voice) in enumerate(TALKS.values()):
        pcm, places = conversation(persona.questions, LEAD_SECONDS, GAP_SECONDS)
        asked.append(np.concatenate([pcm, pause(TAIL_SECONDS)]))
        windows.append([*places[:-1], slice(places[-1].start, None)])
        stepper.prime(slot, stepper.open(Choices(persona.prompt, voice, stepper.config.sampling, SEED)))
    results = {}
    for name, places, (pcm, told) in zip(TALKS, windows, _step_through(stepper, asked), strict=True):
        results[name] = Talk(pcm, told, [listen(pcm[place]) for place in places])
        print(name, results[name].heard)
    return results


def _right(persona: Persona, heard: list[str]) -> list[bool]:
    pairs = zip(persona.answers, heard, strict=True)
    return [re.search(pattern, sentence, re.IGNORECASE) is not None for pattern, sentence in pairs]


@pytest.mark.parametrize("name", TALKS)
def test_whisper_hears_the_right_facts(talks: dict[str, Talk], name: str) -> None:
    persona, _ = TALKS[name]
    assert sum(_right(persona, talks[name].heard)) >= FACTS_NEEDED, talks[name].heard


def test_other_facts_get_other_answers(talks: dict[str, Talk]) -> None:
    assert sum(_right(TECH, talks["NATM0"].heard)) == sum(_right(SPOON, talks["other facts"].heard)) == 0
    changed = [one != other for one, other in zip(talks["NATM0"].heard, talks["other facts"].heard, strict=True)]
    assert sum(changed) >= FACTS_NEEDED


@pytest.mark.parametrize("name", TALKS)
def test_the_transcript_is_what_was_said(talks: dict[str, Talk], name: str) -> None:
    text = talks[name].transcript.text
    persona, _ = TALKS[name]
    company = persona.prompt.split("for ")[1].split(" which")[0]
    assert text.startswith(f"Thank you for calling {company}.") and text.count(company) >= 1
    starts = [word.start_seconds for word in talks[name].transcript.words]
    assert starts == sorted(starts) and starts[0] < 2.0 and starts[-1] > LEAD_SECONDS + 5 * GAP_SECONDS
    greeting = listen(talks[name].pcm[: round(LEAD_SECONDS * 24_000)])
    assert "thank you for calling" in greeting


def test_the_two_voices_are_told_apart_by_pitch(talks: dict[str, Talk]) -> None:
    female, male, other = (median_pitch_hz(talks[name].pcm) for name in TALKS)
    print(f"pitch: {female:.0f} Hz, {male:.0f} Hz, {other:.0f} Hz")
    assert female > 1.3 * male and female > 1.3 * other
    assert 0.85 < male / other < 1.18, "one voice keeps its pitch whatever it says"
