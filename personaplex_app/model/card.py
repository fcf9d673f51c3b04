"""The GPU as torch sees it, as the planner's `Card`; and holding this process to a part of its memory.

In: a CUDA device. Out: `Card`. A card that is in no table is measured: how fast it copies its own memory.
Must not know: models, plans.
"""

from __future__ import annotations

from typing import Any

import torch

from personaplex_app.cards import CONTEXT_BYTES, GIB, Card, figures_for
from personaplex_app.errors import InvalidInput

COPIED_BYTES = 256 << 20  # several times any card's second-level cache
COPIES = 5
CAUTIOUS_BANDWIDTH = 200e9  # less than any card has that holds the model
CORES_A_PROCESSOR = 64  # or more, on every card since 2017
CAUTIOUS_CLOCK_HZ = 1.2e9


def read_card(device: torch.device, limit_bytes: int | None = None) -> Card:
    """The card now, other programs' memory taken away; with a limit, what is left of that for this process."""
    properties = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    if limit_bytes is not None:
        free = min(free, limit_bytes - CONTEXT_BYTES)
    figures = figures_for(properties.name)
    if figures is not None:
        bandwidth, remark = figures.bandwidth, ""
    else:
        bandwidth, remark = _bandwidth(properties, device)
    return Card(
        name=properties.name,
        total_bytes=total,
        free_bytes=free,
        bandwidth=bandwidth,
        float32=figures.float32 if figures else _float32(properties),
        capability=(properties.major, properties.minor),
        remark=remark,
    )


def hold_memory(device: torch.device, limit_bytes: int) -> None:
    """Holds this process to so many bytes of the card, CUDA's context among them; a card that has less gives all.

    A card sold with 24 GB shows less than 24 GiB. Raises InvalidInput where the context alone takes all of it.
    """
    total = torch.cuda.get_device_properties(device).total_memory
    if limit_bytes <= CONTEXT_BYTES:
        raise InvalidInput(
            f"--gpu-memory-gb must be more than {CONTEXT_BYTES / GIB:.1f}, which CUDA itself takes, "
            f"not {limit_bytes / GIB:g}."
        )
    # By number: torch 2.11 takes no device without one here.
    index = torch.cuda.current_device() if device.index is None else device.index
    torch.cuda.set_per_process_memory_fraction((min(limit_bytes, total) - CONTEXT_BYTES) / total, index)


def _bandwidth(properties: Any, device: torch.device) -> tuple[float, str]:
    """Bytes a second and how they are known: by clock and bus where torch tells, else by copying, else cautiously."""
    clock_khz, bus_bits = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    if clock_khz and bus_bits:
        bandwidth = 2 * clock_khz * 1e3 * bus_bits / 8  # two transfers a clock
        return bandwidth, f"Its {bandwidth / 1e9:.0f} GB/s are what its clock and bus give."
    try:
        bandwidth = _copy_rate(device)
    except RuntimeError:  # no room for two copies
        return CAUTIOUS_BANDWIDTH, f"Its bandwidth is not known; {CAUTIOUS_BANDWIDTH / 1e9:.0f} GB/s are a guess."
    return bandwidth, f"Its {bandwidth / 1e9:.0f} GB/s were measured by copying."


def _copy_rate(device: torch.device) -> float:
    """Bytes read and written a second: the best of some copies within the card."""
    source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best_ms = float("inf")
    for _ in range(COPIES):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        best_ms = min(best_ms, begin.elapsed_time(end))
    del source, target
    torch.cuda.empty_cache()
    return 2 * COPIED_BYTES / (best_ms / 1000)


def _float32(properties: Any) -> float:
    """Operations a second, at the least."""
    return float(properties.multi_processor_count * CORES_A_PROCESSOR * 2 * CAUTIOUS_CLOCK_HZ)
