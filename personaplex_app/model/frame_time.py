"""How long a frame truly takes here, measured on the plain engine before anybody comes.

In: a stepper that nobody uses yet. Out: milliseconds. Must not know: plans, sessions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from personaplex_app.audio import silence
from personaplex_app.model.stepper import SpeechStepper

FRAMES = 5
UNTIMED_FRAMES = 2  # the copies that run ahead of a step are under way from then on


def measured_frame_ms(stepper: SpeechStepper, frames: int = FRAMES) -> float:
    """Median of so many frames with every slot taken and every window full; all slots are as new afterwards."""
    heard = {slot: silence() for slot in range(stepper.slots)}
    for slot in heard:
        stepper.release(slot)
        stepper.language.state.set_position(slot, stepper.context)
    taken_ms = median_ms(lambda: stepper.step(heard), frames, UNTIMED_FRAMES)
    for slot in heard:
        stepper.release(slot)
    return taken_ms


def median_ms(step: Callable[[], object], frames: int, untimed_frames: int) -> float:
    """Median milliseconds of so many steps, after some that do not count."""
    taken_ms = []
    for _ in range(untimed_frames + frames):
        began = time.perf_counter()
        step()
        taken_ms.append(1000 * (time.perf_counter() - began))
    return median(taken_ms[untimed_frames:])
