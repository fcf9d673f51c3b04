"""What a layout costs: bytes of GPU memory by part, and milliseconds a frame. All that was measured stands here.

In: a card, a model's sizes, a layout. Out: bytes, milliseconds. Must not know: what is wished for, torch.

Measured on one H200 (torch 2.11, random weights, windows full, 2026-12-01; the README's table has the runs): in
bfloat16 1 call 6.8 ms a tick (language step 5.3, codec 0.64, host 0.7), 64 calls 33.0; with an 8-bit past 8, 64 and 128
calls 9.9, 23.4 and 38.4 ms (of the last the language step takes 32.4, the codec 5.8); one call with 8-bit weights 5.8,
with 4-bit weights 5.8; the plain engine 15.5 for one call. 16.4 GiB allocated with one call, 115 with 128.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from personaplex_app.cards import GIB, Card

MIB = 1 << 20

# Memory.
ALLOCATED_BYTES = 2 * MIB  # torch's allocator gives large tensors in steps of this
BLOCK_POSITIONS = 64  # as model/fast/blocks.py has them
ROW_BUCKETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # as model/fast/language.py has them
SCALE_BYTES = 4
WORKING_BYTES = int(0.6 * GIB)  # recorded graphs' activations, libraries' workspaces
WORKING_ROW_BYTES = 16 * MIB
PROMPT_BYTES = 256 * MIB  # a known prompt or two
MOST_PROMPT_BYTES = 2 * GIB
MARGIN_BYTES = int(0.25 * GIB)  # a recording for rare settings, what the allocator cannot use
CODEC_TRACK_BYTES = 6 * MIB  # a row's past columns in both directions, beside the transformers' rings

# Time.
WEIGHTS_REACH = 0.80  # of the bandwidth, by the matrix kernels
PAST_REACH = {"model": 0.92, "int8": 0.86}  # by the attention kernel
QUANTIZED_MS = {"int8": 1.0, "int4": 1.7}  # what small kernels wait beside reading
ROWS_MS = 1.5  # with two rows and more norms and gates are kernels of their own
LAUNCH_MS = 0.9  # a step's waits between small kernels, most of them in the depth transformer's 8 steps
PLAIN_LAUNCH_MS = 9.7  # the same with moshi's modules
CODEC_MS = 0.6
CODEC_ROW_FLOP = 1.25e9  # a frame both ways
CODEC_REACH = 0.45  # of float32 arithmetic
HOST_MS = 0.7
HOST_ROW_MS = 0.005

OFFLOAD_SLOTS = 1


@dataclass(frozen=True)
class Precision:
    """Bytes of a number of the large matrices, and of all others. plain: whether the plain engine has it."""

    matrix_bytes: float
    other_bytes: float
    plain: bool


PRECISIONS = {
    "float32": Precision(4, 4, plain=True),
    "bfloat16": Precision(2, 2, plain=True),
    "int8": Precision(1 + 4 / 4096, 2, plain=False),  # a scale for each row of a matrix
    "int4": Precision(0.5 + 4 / 128, 2, plain=False),  # a scale and a zero for each group of numbers
}


@dataclass(frozen=True)
class ModelSizes:
    """A model in numbers; `model/sizes.py` counts them.

    Attributes:
        name: for people. matrices: numbers in the matrices that may be 8 or 4 bits wide.
        others: numbers in matrices that every frame reads besides. tables: numbers of which a frame reads some rows.
        layers, dim, heads: of the temporal transformer. context: positions of a window.
        codec_bytes: its weights. codec_row_bytes: what a line's codec remembers.
    """

    name: str
    matrices: int
    others: int
    tables: int
    layers: int
    dim: int
    heads: int
    context: int
    codec_bytes: int
    codec_row_bytes: int


@dataclass(frozen=True)
class Layout:
    """How a model is laid out. kv_cache: `model` (the weights' type) or `int8`."""

    precision: str
    kv_cache: str
    slots: int
    plain: bool = False


def memory_parts(sizes: ModelSizes, layout: Layout) -> dict[str, int]:
    """Bytes by what takes them, every window full; CUDA's own context aside."""
    precision, rows = PRECISIONS[layout.precision], rows_for(layout)
    return {
        "weights": int(sizes.matrices * precision.matrix_bytes + (sizes.others + sizes.tables) * precision.other_bytes),
        "pasts": layout.slots * past_bytes(sizes, layout),
        "codec": sizes.codec_bytes + rows * sizes.codec_row_bytes,
        "working room": WORKING_BYTES + rows * WORKING_ROW_BYTES + MARGIN_BYTES,
        "known prompts": 0 if layout.plain else PROMPT_BYTES,
    }


def rows_for(layout: Layout) -> int:
    """Rows that are laid out for so many lines: the fast engine has them in buckets."""
    if layout.plain:
        return layout.slots
    return next((rows for rows in ROW_BUCKETS if layout.slots <= rows), layout.slots)


def past_bytes(sizes: ModelSizes, layout: Layout) -> int:
    """What one line's full window takes."""
    if layout.plain:
        return int(sizes.context * position_bytes(sizes, layout))
    blocks = -(-sizes.context // BLOCK_POSITIONS)
    block = BLOCK_POSITIONS * position_bytes(sizes, layout)
    return blocks * int(-(-block // ALLOCATED_BYTES) * ALLOCATED_BYTES)


def position_bytes(sizes: ModelSizes, layout: Layout) -> float:
    """Keys and values of one position in all layers."""
    if layout.kv_cache == "int8":
        return sizes.layers * 2 * (sizes.dim + sizes.heads * SCALE_BYTES)
    return sizes.layers * 2 * sizes.dim * PRECISIONS[layout.precision].other_bytes


def copy_bytes(sizes: ModelSizes, layout: Layout) -> int:
    """What the copy of one full window takes while a talk that broke off is brought into host memory."""
    return int(sizes.context * position_bytes(sizes, replace(layout, kv_cache="model")))


def most_prompt_bytes(free_bytes: int, reserved_bytes: int) -> int:
    """How much known prompts may take: what was reserved for them, and more where nobody else wants it."""
    return min(max(MOST_PROMPT_BYTES, reserved_bytes), reserved_bytes + max(0, free_bytes)) if reserved_bytes else 0


def frame_ms(card: Card, sizes: ModelSizes, layout: Layout, positions: int | None = None) -> float:
    """A frame with every line taken and so many positions in each window, all of them where none are named."""
    precision, slots = PRECISIONS[layout.precision], layout.slots
    weights = sizes.matrices * precision.matrix_bytes + sizes.others * precision.other_bytes + sizes.codec_bytes
    known = sizes.context if positions is None or layout.plain else positions  # the plain engine reads whole rings
    pasts = slots * known * position_bytes(sizes, layout)
    read_s = (weights / WEIGHTS_REACH + pasts / PAST_REACH[layout.kv_cache]) / card.bandwidth
    codec_s = slots * CODEC_ROW_FLOP / (card.float32 * CODEC_REACH)
    fixed_ms = (PLAIN_LAUNCH_MS if layout.plain else LAUNCH_MS) + CODEC_MS + HOST_MS + slots * HOST_ROW_MS
    fixed_ms += QUANTIZED_MS.get(layout.precision, 0.0) + (ROWS_MS if slots > 1 else 0.0)
    return fixed_ms + 1000 * (read_s + codec_s)
