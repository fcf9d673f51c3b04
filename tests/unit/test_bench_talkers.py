"""Calls over a stepper without an engine: windows filled as far as asked, tokens compared from the same state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from personaplex_app.audio import Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.echo import EchoStep, EchoStepper
from personaplex_app.engine.ports import Stepper
from personaplex_app.evaluation.bench_talkers import Talkers


class Positions(EchoStepper):
    """An echo with positions: each prompt takes seven, each step one."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.at = [0] * slots
        self.context = 60

    def open(self, choices: Choices) -> Any:
        opened = type("Opened", (), {})()
        opened.plan, opened.choices = type("Plan", (), {"frames": 7})(), super().open(choices)
        return opened

    def prime(self, slot: int, opening: Any) -> None:
        super().prime(slot, opening.choices)
        self.at[slot] = 7

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        for slot in heard:
            self.at[slot] += 1
        return super().step(heard)

    def save(self, slot: int) -> Any:
        return (super().save(slot), self.at[slot])

    def restore(self, slot: int, saved: Any) -> None:
        super().restore(slot, saved[0])
        self.at[slot] = saved[1]


@pytest.mark.parametrize("how", ["steps", "copy", "noise"])
def test_windows_are_filled_to_where_they_should_be(how: str) -> None:
    stepper = Positions(3)
    talkers = Talkers(cast(Stepper, stepper), SamplingSettings())
    talkers.begin()
    talkers.fill(60, how, lambda line: None)
    assert stepper.at == [talkers.position] * 3
    assert talkers.position == 60 + (0 if how == "steps" else 3)
    ticks = talkers.paced(2)
    assert (ticks.first_position, ticks.last_position) == (talkers.position - 2, talkers.position)


def test_comparing_tokens_moves_every_call_on_by_one_frame_a_time() -> None:
    stepper = Positions(2)
    talkers = Talkers(cast(Stepper, stepper), SamplingSettings())
    talkers.begin()
    agreement = talkers.agreement(4)
    assert stepper.at == [11, 11] and stepper.sampling[0] == SamplingSettings()
    assert (agreement.text_equal, agreement.codes, agreement.whole_frames_equal) == (4, 0, 4)


class Differing(EchoStepper):
    """An echo whose every second frame has another token when it is alone."""

    def step(self, heard: Mapping[int, Pcm]) -> dict[int, EchoStep]:
        results = super().step(heard)
        odd = self.counts[0] % 2
        return {slot: replace(one, text_token=-odd) if len(heard) == 1 else one for slot, one in results.items()}


def test_tokens_that_differ_are_counted() -> None:
    class Zero(Differing):
        def _count(self, slot: int) -> int:
            super()._count(slot)
            return 0

    talkers = Talkers(cast(Stepper, Zero(2)), SamplingSettings())
    talkers.begin()
    assert talkers.agreement(10).text_equal == 5


def test_callers_hear_different_pieces_of_the_sound() -> None:
    talkers = Talkers(cast(Stepper, EchoStepper(3)), SamplingSettings())
    frames = [talkers.frame(slot, 40).tobytes() for slot in range(3)]
    assert len(set(frames)) == 3
