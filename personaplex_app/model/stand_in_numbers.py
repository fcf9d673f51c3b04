"""Random numbers for a stand-in's tensors: which spread each has, and its bytes by seed, block by block.

In: a tensor's slot, a seed. Out: its bytes. The same seed gives the same bytes, whatever was made before and however
many threads make them.
Must not know: files, directories.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np
import torch
from moshi.models import loaders
from numpy.typing import NDArray

from personaplex_app.model.checkpoint import file_tensors
from personaplex_app.model.config import CODEBOOKS, CheckpointConfig, LanguageConfig
from personaplex_app.model.safetensors_writer import TensorSlot

BLOCK_NUMBERS = 1 << 21  # 8 MB as float32
BLOCKS_AHEAD = 12
MOST_THREADS = 8
STACKED_STEPS = 16
_LAYER_SCALE = 0.01
_CODEBOOK_DEVIATION = 0.1  # about what the encoder gives for speech
_LOUDNESS = 0.25  # of the decoder's last layer
_OLD_NAMES = (("self_attn.in_projs.0.weight", "self_attn.in_proj_weight"), ("out_projs.0.weight", "out_proj.weight"))


def number_pool() -> ThreadPoolExecutor:
    """As many threads as there are cores, eight at most; numpy lets them run at once."""
    return ThreadPoolExecutor(min(MOST_THREADS, len(os.sched_getaffinity(0))), "stand-in")


def language_slots(config: LanguageConfig) -> list[TensorSlot]:
    """The language model's tensors under their older names, 16 depth steps, bf16."""
    return [TensorSlot(name, "BF16", shape) for name, shape in file_tensors(config, STACKED_STEPS).items()]


def codec_slots(config: CheckpointConfig) -> list[TensorSlot]:
    """The codec's tensors as moshi's `loaders.get_mimi` reads them, float32 under their older names."""
    with torch.device("meta"):
        mimi = loaders.get_mimi(None, config.mimi, device="meta", num_codebooks=CODEBOOKS)
    return [TensorSlot(old_codec_name(name), "F32", tuple(tensor.shape)) for name, tensor in mimi.state_dict().items()]


def old_codec_name(name: str) -> str:
    """What a codec's tensor is called in the released files."""
    for new, old in _OLD_NAMES:
        name = name.replace(new, old)
    return name


def language_spread(slot: TensorSlot) -> tuple[float, float]:
    """Mean and deviation, as `loading.random_weights` has them: activations stay near unit size."""
    if slot.name.endswith("alpha"):
        return 1.0, 0.0
    return 0.0, 0.25 if "emb" in slot.name else slot.shape[-1] ** -0.5


def codec_spread(slot: TensorSlot) -> tuple[float, float]:
    """Mean and deviation, by how many numbers one output sums: codes follow the sound, what is decoded is not loud."""
    name, shape = slot.name, slot.shape
    if name.endswith(("cluster_usage", "_initialized")):
        return 1.0, 0.0
    if name.endswith("embedding_sum"):
        return 0.0, _CODEBOOK_DEVIATION
    if name.endswith("scale"):
        return _LAYER_SCALE, 0.0
    if len(shape) == 1:
        return float(name.endswith("weight")), 0.0  # a norm's gain is 1, a bias 0
    if ".convtr." in name:  # [in, out, kernel], of which two taps meet at each output
        return 0.0, (2 * (shape[0] if shape[1] > 1 else 1)) ** -0.5
    loudness = _LOUDNESS if shape[0] == 1 and name.startswith("decoder.") else 1.0
    return 0.0, loudness * math.prod(shape[1:]) ** -0.5


def number_blocks(slot: TensorSlot, spread: tuple[float, float], seed: int, pool: Executor) -> Iterator[memoryview]:
    """The tensor's bytes in blocks of `BLOCK_NUMBERS`: normal numbers of this mean and deviation.

    Each block has a generator of its own, so the pool's threads make several at once, `BLOCKS_AHEAD` at most.
    """
    sizes = [min(BLOCK_NUMBERS, slot.count - start) for start in range(0, slot.count, BLOCK_NUMBERS)]
    waiting: deque[Future[memoryview]] = deque()
    for index, count in enumerate(sizes):
        waiting.append(pool.submit(_block, slot, spread, seed, index, count))
        if len(waiting) == BLOCKS_AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _block(slot: TensorSlot, spread: tuple[float, float], seed: int, index: int, count: int) -> memoryview:
    mean, deviation = spread
    if deviation:
        numbers = generator_for(f"{slot.name} {index}", seed).standard_normal(count, dtype=np.float32)
        numbers *= np.float32(deviation)
    else:
        numbers = np.full(count, mean, dtype=np.float32)
    return bfloat16_bits(numbers).data if slot.dtype == "BF16" else numbers.data


def generator_for(name: str, seed: int) -> np.random.Generator:
    """A generator of its own for each name and seed."""
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype=np.uint32)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, *words.tolist()])))


def bfloat16_bits(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    """float32 rounded to bfloat16, to the even neighbour in the middle; in place of torch's, which wants threads."""
    whole = numbers.view(np.uint32)
    bits = whole >> 16
    bits &= 1
    bits += 0x7FFF
    bits += whole
    bits >>= 16
    return bits.astype(np.uint16)
