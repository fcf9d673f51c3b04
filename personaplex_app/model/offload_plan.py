"""Which temporal layers stay in GPU memory and which stream from the host's, and what people read of it.

In: the architecture, bytes a number, how many bytes of GPU memory the weights may take. Out: `OffloadPlan`, sizes,
sentences. Must not know: tensors, devices, files.

The temporal transformer's layers are four fifths of the model and alike; all else stays on the GPU. A layer that
streams is copied into one of two staging buffers while the layer before it computes from the other.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from personaplex_app.audio import FRAME_MS
from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import placements
from personaplex_app.model.config import CODEBOOKS, LanguageConfig

STAGING_BUFFERS = 2
ALIGNMENT_BYTES = 512  # of tensors, as torch's allocator has it: by it kernels are chosen that may round differently
SPARE_HOST_BYTES = 1 << 30  # for the tensor that is being read, and for whatever else the process still needs
_LAYER = "temporal.layers.0."
_LAYERS = "temporal.layers."


@dataclass(frozen=True)
class OffloadPlan:
    """Where the temporal layers live.

    Attributes:
        layers: how many there are. streamed: which of them lie in host memory, in order.
        gpu_bytes: what all weights and the staging buffers take there. host_bytes: what the streamed layers take.
    """

    layers: int
    streamed: tuple[int, ...]
    gpu_bytes: int
    host_bytes: int


def layer_bytes(config: LanguageConfig, element_bytes: int) -> int:
    """What one temporal layer takes, its matrices one behind another."""
    elements = _elements(config)
    return sum(aligned_bytes(count, element_bytes) for name, count in elements.items() if name.startswith(_LAYER))


def _elements(config: LanguageConfig) -> Counter[str]:
    """How many numbers each parameter holds."""
    elements: Counter[str] = Counter()
    for item in placements(config, CODEBOOKS):
        height, *rest = item.shape
        elements[item.target] += math.prod(rest) * (item.rows.stop - item.rows.start if item.rows else height)
    return elements


def aligned_bytes(elements: int, element_bytes: int) -> int:
    """What a tensor takes where the next one begins at a full step of the alignment."""
    return -(-elements * element_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def gpu_weight_bytes(config: LanguageConfig, element_bytes: int, resident_layers: int) -> int:
    """What the weights take on the GPU with so many layers resident; where others stream, with their staging buffers.

    The key-value rings, the codec and the room that kernels work in come on top.
    """
    elements = _elements(config)
    rest = sum(aligned_bytes(count, element_bytes) for name, count in elements.items() if not name.startswith(_LAYERS))
    staged = STAGING_BUFFERS if resident_layers < config.layers else 0
    return rest + (resident_layers + staged) * layer_bytes(config, element_bytes)


def plan_offload(config: LanguageConfig, element_bytes: int, budget_bytes: int) -> OffloadPlan:
    """As many resident layers as the budget holds.

    Raises InvalidInput where it holds none of them, nor all that must be there besides.
    """
    least = gpu_weight_bytes(config, element_bytes, 0)
    one = layer_bytes(config, element_bytes)
    if budget_bytes >= gpu_weight_bytes(config, element_bytes, config.layers):
        resident = config.layers
    elif budget_bytes >= least:
        resident = (budget_bytes - least) // one
    else:
        raise InvalidInput(
            f"Streaming layers from host memory does not help here: the embeddings, the heads, the depth transformer "
            f"and room for {STAGING_BUFFERS} layers take {_gib(least)} of GPU memory, and the weights may take "
            f"{_gib(max(budget_bytes, 0))}. Free GPU memory, offer fewer slots or take a larger GPU."
        )
    streamed = _spread(config.layers - resident, config.layers)
    gpu = gpu_weight_bytes(config, element_bytes, resident)
    return OffloadPlan(config.layers, streamed, gpu, len(streamed) * one)


def _spread(count: int, layers: int) -> tuple[int, ...]:
    """So many of the layers, evenly: the next one is copied while the resident ones between compute."""
    return tuple((place + 1) * layers // count - 1 for place in range(count))


def check_host_room(plan: OffloadPlan, available_bytes: int | None) -> None:
    """Raises InvalidInput where the streamed layers do not fit host memory; None where the system does not tell."""
    needed = plan.host_bytes + SPARE_HOST_BYTES
    if available_bytes is not None and plan.streamed and available_bytes < needed:
        raise InvalidInput(
            f"The {len(plan.streamed)} of {plan.layers} layers that do not fit the GPU need {_gib(needed)} of host "
            f"memory, {_gib(SPARE_HOST_BYTES)} of it to spare, and {_gib(available_bytes)} are available. "
            f"Free host memory, or take a larger GPU."
        )


def offload_sentence(measured_ms: float, streamed_layers: int, layers: int) -> str:
    """What people should know of a stepper whose layers stream, from the median time that a frame took here."""
    where = f"{streamed_layers} of {layers} layers stream from host memory"
    took = f"a frame takes {measured_ms:.0f} ms"
    if measured_ms <= FRAME_MS:
        return f"{where}: {took}, {FRAME_MS:.0f} is real time."
    return f"{where}: {took}, {FRAME_MS:.0f} would be real time; not real time here, offline render works."


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB"
