"""The rehearsal: before anybody comes, every line at the end of a full window, stepped and timed.

In: a stepper of the fast engine that nobody uses yet. Out: milliseconds of a frame at its most; the memory that full
windows take is the pool's from then on, so that no talk can lack it later.
Must not know: plans, sessions.
"""

from __future__ import annotations

from typing import cast

import torch

from personaplex_app.audio import silence
from personaplex_app.model.fast.language import FastLanguageModel
from personaplex_app.model.fast.stepper import FastStepper
from personaplex_app.model.frame_time import median_ms

FRAMES = 10
UNTIMED_FRAMES = 2


def rehearse(stepper: FastStepper, frames: int = FRAMES) -> float:
    """Median milliseconds of a frame with every line taken and every window full; all lines are as new afterwards.

    Raises what the stepper raises, torch's OutOfMemoryError among it.
    """
    language = cast("FastLanguageModel", stepper.language)
    slots = range(stepper.slots)
    _make_blocks(language, stepper.slots)
    for slot in slots:
        _stand_at_the_end(language, slot)
        stepper.set_sampling(slot, stepper.config.sampling)
    heard = {slot: silence() for slot in slots}
    taken_ms = median_ms(lambda: stepper.step(heard), frames, UNTIMED_FRAMES)
    for slot in slots:
        stepper.release(slot)
    return taken_ms


@torch.inference_mode()
def _make_blocks(language: FastLanguageModel, slots: int) -> None:
    """All blocks that full windows can ever hold, zero: numbers that memory happens to hold need not be finite."""
    blocks = [language.pool.take() for _ in range(slots * language.past.table.shape[1])]
    for block in blocks:
        block.zero_()
        language.pool.give(block)


@torch.inference_mode()
def _stand_at_the_end(language: FastLanguageModel, slot: int) -> None:
    context = language.config.context
    language.reset(slot)
    language.past.make_room(slot, context - 1)
    language.state.set_position(slot, context)
