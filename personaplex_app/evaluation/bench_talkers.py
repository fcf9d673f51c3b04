"""N calls over the stepper itself, on the thread that calls: windows filled, then paced ticks, then as fast as it goes.

In: a stepper whose slots are free. Out: ticks with their parts, throughput, agreement of greedy tokens.
Must not know: engines, sessions, how figures are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from personaplex_app.audio import FRAME_MS, Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.ports import Stepper, StepResult
from personaplex_app.errors import ServerFault
from personaplex_app.evaluation.bench_memory import give_back_memory
from personaplex_app.evaluation.bench_probe import Probe
from personaplex_app.evaluation.bench_report import Agreement, Throughput, Ticks
from personaplex_app.evaluation.bench_schedule import run_paced
from personaplex_app.evaluation.bench_sound import speech_like
from personaplex_app.voices import NO_VOICE

SOUND_FRAMES = 125
APART_FRAMES = 17  # each caller is somewhere else in the same sound
WARM_STEPS = 3
UNPACED_STEPS = 50
UNPACED_SECONDS = 3.0
PERSONA = "You enjoy having a good conversation."


class Talkers:
    """All slots of a stepper, each with a call that hears its own piece of the sound."""

    def __init__(self, stepper: Stepper, sampling: SamplingSettings) -> None:
        self.stepper = stepper
        self.probe = Probe(stepper)
        self.slots = range(stepper.slots)
        self.sampling = sampling
        self.sound = speech_like(SOUND_FRAMES)
        self.position: int | None = None
        self._index = 0

    def begin(self) -> None:
        """Primes every slot with the same short persona."""
        for slot in self.slots:
            opening = self.stepper.open(Choices(PERSONA, NO_VOICE, self.sampling, slot))
            self.stepper.prime(slot, opening)
            self.position = self.probe.prompt_positions(opening)

    def frame(self, slot: int, index: int) -> Pcm:
        """float32 [1920] that a slot hears in frame `index`."""
        heard: Pcm = self.sound[(index + APART_FRAMES * slot) % len(self.sound)]
        return heard

    def step(self) -> Mapping[int, StepResult]:
        """One frame for every call, as the engine does it; raises ServerFault where numbers stop being finite."""
        results = self._stepped(self.slots)
        self._index += 1
        if self.position is not None:
            self.position += 1
        return results

    def step_alone(self) -> StepResult:
        """The same frame for slot 0 alone; the others rest. Moves nobody on."""
        return self._stepped([0])[0]

    def _stepped(self, slots: Any) -> Mapping[int, StepResult]:
        results = self.stepper.step({slot: self.frame(slot, self._index) for slot in slots})
        for slot in slots:
            if not results[slot].healthy:
                raise ServerFault(f"The model's numbers stopped being finite in slot {slot}, frame {self._index}.")
            self.stepper.text(results[slot].text_token)
        return results

    def fill(self, positions: int, how: str, say: Callable[[str], None]) -> None:
        """The windows hold so many positions afterwards.

        Args:
            how: `steps` without a pause for all; `copy`: for one call, and the others begin from a copy of it;
                `noise`: a random past, where the stepper's saved slots can hold one, else as `copy`.
        """
        missing = max(WARM_STEPS, positions - (self.position or 0))
        if how == "steps":
            self._fill(missing, self.step, say)
            return

        def alone() -> None:
            self.step_alone()
            self._index += 1

        noisy = self.probe.with_noise(self.stepper.save(0), positions) if how == "noise" else None
        give_back_memory()  # else the pasts would lie in pieces of what making the noise took
        if noisy is None:
            self._fill(missing, alone, say)
        saved = self.stepper.save(0) if noisy is None else noisy
        for slot in self.slots if noisy is not None else self.slots[1:]:
            self.stepper.restore(slot, saved)
        self.position = None if self.position is None else self.position + missing
        self._fill(WARM_STEPS, self.step, say)

    def _fill(self, steps: int, step: Callable[[], Any], say: Callable[[str], None]) -> None:
        began = time.perf_counter()
        for index in range(steps):
            step()
            if index in (10, 100):
                left = (steps - index) * (time.perf_counter() - began) / index
                say(f"filling the windows, {steps} steps, about {left:.0f} s left")

    def paced(self, frames: int) -> Ticks:
        """Ticks on an absolute schedule of 80 ms, with their parts."""
        first = self.position
        with self.probe.timing() as watch:

            def tick(index: int) -> None:
                watch.begin()
                self.step()
                watch.end()

            run = run_paced(tick, frames, between=watch.collect)
        parts, host = watch.parts_ms or self.probe.parts_apart(len(self.slots)), watch.host_ms
        return Ticks(frames, run.missed, run.tick_ms, parts, host, watch.host_is, first, self.position)

    def unpaced(self) -> Throughput:
        """One step after another, for some seconds at most."""
        self.probe.settle()
        began, steps = time.perf_counter(), 0
        while steps < UNPACED_STEPS and (steps == 0 or time.perf_counter() - began < UNPACED_SECONDS):
            self.step()
            steps += 1
        self.probe.settle()
        seconds = (time.perf_counter() - began) / steps
        return Throughput(steps, len(self.slots) / seconds, len(self.slots) * FRAME_MS / 1000 / seconds)

    def agreement(self, frames: int) -> Agreement:
        """Slot 0's greedy tokens alone and among all, every frame from the same state with the same sound."""
        text = codes = whole = counted = 0
        self.stepper.set_sampling(0, self.sampling.greedy())
        for _ in range(frames):
            saved = self.stepper.save(0)
            alone = self.probe.tokens(self.step_alone())
            self.stepper.restore(0, saved)
            among = self.probe.tokens(self.step()[0])
            same = [one == other for one, other in zip(alone, among, strict=True)]
            text, codes, whole = text + same[0], codes + sum(same[1:]), whole + all(same)
            counted += len(same) - 1
        self.stepper.set_sampling(0, self.sampling)
        return Agreement(frames, text, codes, counted, whole)

    def state_bytes(self) -> int:
        """What a copy of one call's state takes."""
        return self.stepper.save(0).bytes
