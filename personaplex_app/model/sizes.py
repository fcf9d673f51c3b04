"""A model in numbers, for the planner: counted from its configuration before anything is loaded.

In: a checkpoint's configuration. Out: `ModelSizes`. Must not know: cards, plans.
"""

from __future__ import annotations

import math
import re
from typing import Any

from moshi.models import loaders
from torch import nn

from personaplex_app.errors import InvalidInput
from personaplex_app.model.checkpoint import Placement, placements
from personaplex_app.model.config import CODEBOOKS, CheckpointConfig, LanguageConfig
from personaplex_app.plan_costs import CODEC_TRACK_BYTES, ModelSizes

RELEASED = "PersonaPlex-7B"
CODEC_ELEMENT_BYTES = 4  # the codec always runs in float32
_MATRIX = re.compile(r"temporal\.(layers\.\d+\.(in_proj|out_proj|gate_in|gate_out)|text_linear)\.weight")


def model_sizes(config: CheckpointConfig) -> ModelSizes:
    """Counts a model; raises InvalidInput for a codec that cannot be built."""
    language = config.language
    counted = {"matrices": 0, "tables": 0, "others": 0}
    for item in placements(language, CODEBOOKS):
        counted[_kind(item.target)] += _numbers(item)
    codec, codec_row = _codec_bytes(config)
    return ModelSizes(
        name=model_name(config, sum(counted.values())),
        layers=language.layers,
        dim=language.dim,
        heads=language.heads,
        context=language.context,
        codec_bytes=codec,
        codec_row_bytes=codec_row,
        **counted,
    )


def model_name(config: CheckpointConfig, numbers: int) -> str:
    """What people call it: the released architecture by its name, others by how large they are."""
    if config.language == LanguageConfig() and config.mimi is None:
        return RELEASED
    size = f"{numbers / 1e9:.1f} B" if numbers >= 1e9 else f"{numbers / 1e6:.1f} M"
    return f"A model of {size} parameters"


def _kind(target: str) -> str:
    if _MATRIX.fullmatch(target):
        return "matrices"
    return "tables" if "_emb" in target else "others"


def _numbers(item: Placement) -> int:
    if item.rows is None:
        return math.prod(item.shape)
    return (item.rows.stop - item.rows.start) * math.prod(item.shape[1:])


def _codec_bytes(config: CheckpointConfig) -> tuple[int, int]:
    """The codec's weights, and what one row of its streaming state takes: two transformers' rings and past columns."""
    try:
        mimi = loaders.get_mimi(None, config.mimi, device="meta", num_codebooks=CODEBOOKS)
        rings = sum(_ring_numbers(part) for part in (mimi.encoder_transformer, mimi.decoder_transformer))
    except Exception as error:  # moshi asserts and indexes its way through whatever config.json says
        raise InvalidInput(f"mimi_config in config.json is not usable: {error!r}") from None
    numbers = sum(tensor.numel() for tensor in (*mimi.parameters(), *mimi.buffers()))
    return numbers * CODEC_ELEMENT_BYTES, rings * CODEC_ELEMENT_BYTES + CODEC_TRACK_BYTES


def _ring_numbers(transformer: nn.Module) -> int:
    """Keys and values of all layers' windows, for one row."""
    attentions: list[Any] = [module for module in transformer.modules() if hasattr(module, "embed_dim")]
    return sum(2 * attention.context * attention.embed_dim for attention in attentions)
