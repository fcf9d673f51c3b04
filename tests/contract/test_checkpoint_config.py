"""Whatever a `config.json` says, it is used or refused in one sentence; never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.variants import with_config

from personaplex_app.assemble import build_stepper
from personaplex_app.errors import InvalidInput
from personaplex_app.model.config import read_config
from personaplex_app.settings import EngineChoice

NAN, INFINITE = float("nan"), float("inf")
REFUSED = [
    ("lm_config", [], "no attribute"),
    ("lm_config", "dim", "string indices"),
    ("lm_config.dim", "x", "invalid literal"),
    ("lm_config.dim", INFINITE, "infinity"),
    ("lm_config.dim", -32, "must be from 1 to"),
    ("lm_config.num_layers", 0, "must be from 1 to"),
    ("lm_config.num_heads", 5, "num_heads must divide dim"),
    ("lm_config.depformer_num_heads", 5, "depformer_num_heads must divide"),
    ("lm_config.max_period", 0, "max_period must be"),
    ("lm_config.hidden_scale", NAN, "NaN"),
    ("lm_config.delays", [0] * 17, "lm_config.delays is .*; this engine runs"),
    ("lm_config.n_q", 8, "lm_config.n_q is 8; this engine runs 16 only"),
    ("lm_config.norm", "layer_norm", "lm_config.norm is 'layer_norm'; this engine runs 'rms_norm_f32' only"),
    ("lm_config.gating", "gelu", "lm_config.gating is 'gelu'"),
    ("lm_config.existing_text_padding_id", 5, "existing_text_padding_id is 5"),
    ("mimi_config", 3, "mimi_config must be an object"),
    ("sampling", [], "mapping"),
    ("sampling", {"audio_temperature": 99}, "Audio temperature must be from 0 to 2"),
    ("sampling", {"top_p": 1}, "Unknown sampling setting 'top_p'"),
    ("random", "no", "random must be true or false"),
    ("random", 1, "random must be true or false"),
    ("trained_positions", -3, "trained_positions must be"),
    ("silence_codes", [1] * 7, "silence_codes must be 8 codes below 2048"),
    ("sine_codes", [5000] * 8, "sine_codes must be 8 codes below 2048"),
    ("sine_codes", 3, "not iterable"),
]
CODEC_REFUSED = [
    ("mimi_config", {}, "mimi_config in config.json is not usable"),
    ("mimi_config.sample_rate", 16_000, "mimi_config in config.json is not usable"),
    ("mimi_config.quantizer.bins", 1024, "is not the codec that this checkpoint describes"),
]


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(config: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            config = config[parent]
        config[last] = value

    return change


@pytest.mark.parametrize(("key", "value", "sentence"), REFUSED)
def test_values_that_cannot_be_are_refused(
    mini_directory: Path, tmp_path: Path, key: str, value: Any, sentence: str
) -> None:
    directory = with_config(mini_directory, tmp_path / "variant", _set(key, value))
    with pytest.raises(InvalidInput, match=sentence) as refused:
        read_config(directory / "config.json")
    assert "config.json is not usable" in refused.value.sentence


@pytest.mark.parametrize(("key", "value", "sentence"), CODEC_REFUSED)
def test_codecs_that_cannot_be_are_refused(
    mini_directory: Path, tmp_path: Path, key: str, value: Any, sentence: str
) -> None:
    directory = with_config(mini_directory, tmp_path / "variant", _set(key, value))
    with pytest.raises(InvalidInput, match=sentence) as refused:
        build_stepper(EngineChoice(str(directory), tmp_path / "cache", device="cpu"))
    assert "\n" not in refused.value.sentence


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"lm_config": '])
def test_what_is_no_json_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"config.json (cannot be read as JSON|must hold a JSON object)"):
        read_config(tmp_path / "config.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9999) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=6,
)
KEYS = ("lm_config", "lm_config.dim", "lm_config.max_period", "lm_config.hidden_scale", "lm_config.num_heads")
MORE_KEYS = (
    "random",
    "mimi_config",
    "sampling",
    "sampling.text_top_k",
    "trained_positions",
    "silence_codes",
    "lm_config.delays",
)


@given(key=st.sampled_from(KEYS + MORE_KEYS), value=JSON)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_is_used_or_refused(tmp_path: Path, key: str, value: Any) -> None:
    import json

    config: dict[str, Any] = {"lm_config": {}, "sampling": {}}
    _set(key, value)(config)
    (tmp_path / "config.json").write_text(json.dumps(config))
    try:
        language = read_config(tmp_path / "config.json").language
    except InvalidInput as error:
        assert "config.json" in error.sentence
    else:
        assert language.dim > 0 and language.head_dim * language.heads == language.dim
