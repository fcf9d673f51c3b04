"""A full-size model on a GPU that is held to 24 and to 16 GiB: talks past the window's end, unpaced, and all goes on.

The weights are random: memory and time are the released model's, speech is not. `-s` shows what was measured.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import FRAME_MS, FRAME_SAMPLES
from personaplex_app.cards import CONTEXT_BYTES, GIB
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.model.fast.stepper import FastStepper
from personaplex_app.settings import EngineChoice

CUDA = torch.device("cuda")
FRAMES = 7500  # ten minutes of talk past the window's end
HEARD_FRAMES = 64
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU is usable here"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def whole_memory() -> Iterator[None]:
    """A share that a test takes is given back, and so is what it laid out."""
    torch.cuda.reset_peak_memory_stats()
    yield
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("held_gib", "precision", "slots", "least_slots"),
    [(24, "bfloat16", None, 4), (16, "int8", 2, 2)],
    ids=["24 GiB in bfloat16, as planned", "16 GiB in 8 bits, two lines"],
)
def test_ten_minutes_on_every_line_of_a_held_card(
    cache_outside_home: Path, held_gib: int, precision: str, slots: int | None, least_slots: int
) -> None:
    if torch.cuda.mem_get_info(CUDA)[0] < held_gib * GIB:
        pytest.skip(f"less than {held_gib} GiB of GPU memory are free")
    choice = EngineChoice(
        "random", cache_outside_home, device="cuda", precision=precision, slots=slots, gpu_memory_bytes=held_gib * GIB
    )
    stepper = build_stepper(choice)
    assert isinstance(stepper, FastStepper) and not stepper.remark and stepper.plan is not None
    assert stepper.slots >= least_slots and stepper.plan.layout.precision == precision
    times_ms = _talk(stepper, stepper.context + FRAMES)
    peak_bytes = torch.cuda.max_memory_reserved()
    after = times_ms[stepper.context :]
    median, worst = np.percentile(after, 50), np.percentile(after, 99)
    print(
        f"\nheld to {held_gib} GiB, {precision}, {stepper.slots} lines: p50 {median:.2f} ms, p99 {worst:.2f} ms past "
        f"the window's end; peak {peak_bytes / GIB:.2f} GiB reserved"
    )
    positions = stepper.language.state.position_host[: stepper.slots]
    assert min(positions) > stepper.context + FRAMES, "every line is so far past its window's end"
    assert peak_bytes <= held_gib * GIB - CONTEXT_BYTES and median <= FRAME_MS
    saved = stepper.save(0)  # a talk that breaks off can still be put aside, and comes back
    stepper.restore(0, saved)
    assert stepper.step({0: _heard()[0]})[0].healthy


def _heard() -> npt.NDArray[np.float32]:
    noise = np.random.default_rng(1).standard_normal((HEARD_FRAMES, FRAME_SAMPLES))
    return (0.05 * noise).astype(np.float32)


def _talk(stepper: FastStepper, frames: int) -> npt.NDArray[np.float64]:
    """Milliseconds of each frame with a talk on every line; each line hears something else."""
    heard, lines = _heard(), range(stepper.slots)
    for slot in lines:
        choices = Choices("You enjoy having a good conversation.", "none", SamplingSettings(), slot)
        stepper.prime(slot, stepper.open(choices))
    times_ms = np.zeros(frames)
    for frame in range(frames):
        begun = time.perf_counter()
        steps = stepper.step({slot: heard[(frame + 17 * slot) % HEARD_FRAMES] for slot in lines})
        times_ms[frame] = 1000 * (time.perf_counter() - begun)
        assert all(one.healthy for one in steps.values()), f"frame {frame} is not healthy"
    return times_ms
