"""The two sizes of a training: full, for one GPU, and toy, for minutes on a CPU.

In: a name. Out: `Sizes`, frozen.
Must not know: tensors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class CodecSizes:
    """The codec's training.

    Attributes:
        batch, frames: utterances a step and frames of 80 ms a piece. seconds: of training.
        rate: peak learning rate. decoder_*: the same for the polish of the decoder.
    """

    filters: int = 16
    width: int = 192
    heads: int = 6
    layers: int = 2
    code_width: int = 64
    batch: int = 32
    frames: int = 64
    seconds: float = 300.0
    rate: float = 8e-4
    decoder_batch: int = 48
    decoder_frames: int = 56  # 4.5 s, the longest sentence
    decoder_seconds: float = 150.0


@dataclass(frozen=True)
class Phase:
    """A part of the language model's training: talks of so many positions, so many a batch, for a share of the time."""

    positions: int
    batch: int
    share: float


@dataclass(frozen=True)
class LanguageSizes:
    """The language model's architecture and training.

    Attributes:
        phases: shorter talks first, whole windows last. depth_positions: how many of a batch's positions train the
            depth transformer. workers: processes that assemble talks. pool: talks kept on the device, in positions.
    """

    dim: int = 256
    layers: int = 8
    heads: int = 4
    depth_dim: int = 128
    depth_layers: int = 3
    depth_heads: int = 4
    depth_feed_forward: int = 528
    context: int = 3000
    phases: tuple[Phase, ...] = (Phase(512, 80, 0.5), Phase(1500, 27, 0.2), Phase(3000, 14, 0.3))
    depth_positions: int = 15_000
    rate: float = 1.5e-3
    seconds: float = 830.0
    workers: int = 14
    pool: int = 12_000_000


@dataclass(frozen=True)
class Sizes:
    """All numbers of one training.

    Attributes:
        renderings: how often each sentence is said, by family of voices. most_utterances: of a family.
        tracks, track_frames: user streams that are encoded whole, at most, and how long each is.
        least_tracks: so many are made even where `track_seconds` are over.
    """

    name: str
    seed: int = 5
    text_card: int = 1000
    renderings: dict[str, int] = field(default_factory=dict)
    most_utterances: int | None = None
    tracks: int = 12_000
    least_tracks: int = 2400
    track_seconds: float = 180.0
    track_frames: int = 3000
    track_batch: int = 12
    codec: CodecSizes = CodecSizes()
    language: LanguageSizes = LanguageSizes()


FULL = Sizes("full", renderings={"agents": 2, "hibari": 3, "kokoro": 2, "flite": 1, "espeak": 1})
TOY = Sizes(
    "toy",
    text_card=400,
    renderings={"agents": 1, "hibari": 1, "kokoro": 1, "flite": 1, "espeak": 1},
    most_utterances=24,
    tracks=6,
    least_tracks=6,
    track_frames=160,
    track_batch=3,
    codec=CodecSizes(
        filters=4, width=32, heads=2, layers=1, code_width=16, batch=4, frames=12, seconds=3.0, decoder_batch=2,
        decoder_frames=8, decoder_seconds=2.0,
    ),
    language=LanguageSizes(
        dim=32, layers=1, heads=2, depth_dim=16, depth_layers=1, depth_heads=2, depth_feed_forward=66, context=900,
        phases=(Phase(320, 4, 0.5), Phase(480, 2, 0.5)), depth_positions=60, seconds=3.0, workers=0, pool=8000,
    ),
)  # fmt: skip


def size(name: str, pace: float = 1.0) -> Sizes:
    """`toy` or `full`, with `pace` times as long for whatever takes its time by the clock."""
    whole = {"toy": TOY, "full": FULL}[name]
    codec, language = whole.codec, whole.language
    return replace(
        whole,
        least_tracks=math.ceil(pace * whole.least_tracks),
        track_seconds=pace * whole.track_seconds,
        codec=replace(codec, seconds=pace * codec.seconds, decoder_seconds=pace * codec.decoder_seconds),
        language=replace(language, seconds=pace * language.seconds),
    )


def mimi_config(sizes: CodecSizes) -> dict[str, Any]:
    """Keyword tree for `moshi.models.loaders.get_mimi`: Mimi as released, but small."""
    return {
        "sample_rate": 24000,
        "channels": 1,
        "frame_rate": 12.5,
        "seanet": {
            "channels": 1,
            "dimension": sizes.width,
            "causal": True,
            "n_filters": sizes.filters,
            "n_residual_layers": 1,
            "activation": "ELU",
            "compress": 2,
            "dilation_base": 2,
            "disable_norm_outer_blocks": 0,
            "kernel_size": 7,
            "residual_kernel_size": 3,
            "last_kernel_size": 3,
            "norm": "none",
            "pad_mode": "constant",
            "ratios": [8, 6, 5, 4],
            "true_skip": True,
        },
        "quantizer": {
            "dimension": sizes.code_width,
            "n_q": 8,
            "bins": 2048,
            "input_dimension": sizes.width,
            "output_dimension": sizes.width,
        },
        "transformer": {
            "d_model": sizes.width,
            "num_heads": sizes.heads,
            "num_layers": sizes.layers,
            "causal": True,
            "layer_scale": 0.1,
            "context": 32,
            "conv_layout": True,
            "max_period": 10000,
            "gating": "none",
            "norm": "layer_norm",
            "positional_embedding": "rope",
            "dim_feedforward": 4 * sizes.width,
            "input_dimension": sizes.width,
            "output_dimensions": [sizes.width],
        },
    }


def language_config(sizes: LanguageSizes, text_card: int) -> dict[str, Any]:
    """`lm_config` of the checkpoint's `config.json`."""
    return {
        "dim": sizes.dim,
        "text_card": text_card,
        "existing_text_padding_id": 3,
        "n_q": 16,
        "dep_q": 8,
        "card": 2048,
        "num_heads": sizes.heads,
        "num_layers": sizes.layers,
        "hidden_scale": 4.125,
        "causal": True,
        "layer_scale": None,
        "context": sizes.context,
        "max_period": 10000,
        "gating": "silu",
        "norm": "rms_norm_f32",
        "positional_embedding": "rope",
        "depformer_dim": sizes.depth_dim,
        "depformer_dim_feedforward": sizes.depth_feed_forward,
        "depformer_num_heads": sizes.depth_heads,
        "depformer_num_layers": sizes.depth_layers,
        "depformer_layer_scale": None,
        "depformer_multi_linear": True,
        "depformer_context": 8,
        "depformer_max_period": 10000,
        "depformer_gating": "silu",
        "depformer_pos_emb": "none",
        "depformer_weights_per_step": True,
        "delays": [0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1],
    }
