"""The architecture in numbers, read from `config.json` where a checkpoint brings one.

In: the JSON text. Out: frozen `CheckpointConfig`. Without a file, PersonaPlex-7B's own numbers hold.
Must not know: tensors, devices.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from personaplex_app.controls import SamplingSettings
from personaplex_app.errors import InvalidInput

STREAMS = 17  # 0 agent text, 1-8 agent audio, 9-16 user audio
CODEBOOKS = 8
AGENT = slice(1, 9)
USER = slice(9, 17)
DELAYS = (0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1)
TEXT_PADDING = 3
TEXT_END_OF_PADDING = 0
RMS_NORM_EPS = 1e-8
LARGEST_SIZE = 1_000_000
SILENCE_CODES = (948, 243, 1178, 546, 1736, 1030, 1978, 2008)
SINE_CODES = (430, 1268, 381, 1611, 1095, 1495, 56, 472)

_FIXED = {
    "n_q": 16,
    "delays": list(DELAYS),
    "gating": "silu",
    "norm": "rms_norm_f32",
    "positional_embedding": "rope",
    "layer_scale": None,
    "existing_text_padding_id": TEXT_PADDING,
    "depformer_multi_linear": True,
    "depformer_weights_per_step": True,
    "depformer_gating": "silu",
    "depformer_pos_emb": "none",
    "depformer_layer_scale": None,
}
_SIZES = {
    "dim": "dim",
    "num_layers": "layers",
    "num_heads": "heads",
    "context": "context",
    "text_card": "text_card",
    "card": "audio_card",
    "depformer_dim": "depth_dim",
    "depformer_num_layers": "depth_layers",
    "depformer_num_heads": "depth_heads",
}


def gating_hidden(dim: int, feed_forward: int) -> int:
    """Width of a gated feed-forward's hidden layer, by moshi's rule."""
    return (21 * dim) // 8 if feed_forward == 4 * dim else (2 * feed_forward) // 3


@dataclass(frozen=True)
class LanguageConfig:
    """Sizes of the temporal and the depth transformer; the defaults are PersonaPlex-7B's."""

    dim: int = 4096
    layers: int = 32
    heads: int = 32
    hidden: int = gating_hidden(4096, int(4.125 * 4096))
    context: int = 3000
    max_period: float = 10_000.0
    text_card: int = 32_000
    audio_card: int = 2048
    depth_dim: int = 1024
    depth_layers: int = 6
    depth_heads: int = 16
    depth_hidden: int = gating_hidden(1024, int(4.125 * 1024))

    @property
    def head_dim(self) -> int:
        """Width of one attention head of the temporal transformer."""
        return self.dim // self.heads

    @property
    def initial_tokens(self) -> list[int]:
        """What stands before the first frame, a token a stream."""
        return [self.text_card] + [self.audio_card] * (STREAMS - 1)


@dataclass(frozen=True)
class CheckpointConfig:
    """All that a checkpoint's `config.json` may say.

    Attributes:
        mimi: keyword tree for `moshi.models.loaders.get_mimi`, or None for the released codec.
        trained_positions: how many positions training saw, where that is less than the context.
        random: the weights were never trained: they prove speed, not speech.
    """

    language: LanguageConfig = field(default_factory=LanguageConfig)
    mimi: dict[str, Any] | None = None
    silence_codes: tuple[int, ...] = SILENCE_CODES
    sine_codes: tuple[int, ...] = SINE_CODES
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    trained_positions: int | None = None
    random: bool = False


def read_config(path: Path) -> CheckpointConfig:
    """Reads `config.json`; a missing file means the released architecture. Raises InvalidInput in words."""
    if not path.exists():
        return CheckpointConfig()
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON: {error}.") from None
    if not isinstance(raw, dict):
        raise InvalidInput(f"{path} must hold a JSON object.")
    try:
        language = _language(raw.get("lm_config"))
        return CheckpointConfig(
            language=language,
            mimi=_mimi(raw.get("mimi_config")),
            silence_codes=_codes(raw, "silence_codes", SILENCE_CODES, language.audio_card),
            sine_codes=_codes(raw, "sine_codes", SINE_CODES, language.audio_card),
            sampling=SamplingSettings.from_mapping(raw.get("sampling", {})),
            trained_positions=_positions(raw.get("trained_positions")),
            random=_flag(raw, "random"),
        )
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, InvalidInput) as error:
        raise InvalidInput(f"{path} is not usable: {error}") from None


def _language(raw: dict[str, Any] | None) -> LanguageConfig:
    if raw is None:
        return LanguageConfig()
    for key, value in _FIXED.items():
        if key in raw and raw[key] != value:
            raise InvalidInput(f"lm_config.{key} is {raw[key]!r}; this engine runs {value!r} only.")
    sizes = {ours: int(raw[theirs]) for theirs, ours in _SIZES.items() if theirs in raw}
    if any(not 0 < value <= LARGEST_SIZE for value in sizes.values()):
        raise InvalidInput(f"every size in lm_config must be from 1 to {LARGEST_SIZE}.")
    config = LanguageConfig(**sizes)
    if config.dim % (2 * config.heads) or config.depth_dim % config.depth_heads:
        raise InvalidInput("num_heads must divide dim into even widths, depformer_num_heads must divide depformer_dim.")
    scale = float(raw.get("hidden_scale", 4.125))
    depth_forward = int(raw.get("depformer_dim_feedforward") or int(scale * config.depth_dim))
    sizes["hidden"] = gating_hidden(config.dim, int(scale * config.dim))
    sizes["depth_hidden"] = gating_hidden(config.depth_dim, depth_forward)
    max_period = float(raw.get("max_period", 10_000))
    if not 1 < max_period < float("inf"):
        raise InvalidInput("max_period must be more than 1.")
    return LanguageConfig(**sizes, max_period=max_period)


def _mimi(raw: Any) -> dict[str, Any] | None:
    if raw is not None and not isinstance(raw, dict):
        raise InvalidInput("mimi_config must be an object.")
    return raw


def _codes(raw: dict[str, Any], key: str, default: tuple[int, ...], card: int) -> tuple[int, ...]:
    codes = tuple(int(code) for code in raw.get(key, default))
    if len(codes) != CODEBOOKS or any(not 0 <= code < card for code in codes):
        raise InvalidInput(f"{key} must be {CODEBOOKS} codes below {card}.")
    return codes


def _positions(raw: Any) -> int | None:
    if raw is not None and (isinstance(raw, bool) or not isinstance(raw, int) or raw < 1):
        raise InvalidInput("trained_positions must be a whole number from 1 on.")
    return raw


def _flag(raw: dict[str, Any], key: str) -> bool:
    value = raw.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidInput(f"{key} must be true or false.")
    return bool(value)
