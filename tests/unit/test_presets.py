"""Sampling in three flavours, over what the checkpoint was made for."""

from __future__ import annotations

from personaplex_app.controls import SamplingSettings
from personaplex_app.web.form import FIELDS, read_sampling
from personaplex_app.web.presets import presets_over


def test_the_presets_fill_boxes_with_what_a_talk_can_be_asked_with() -> None:
    own = SamplingSettings(audio_temperature=0.6, text_temperature=0.5, audio_top_k=77, text_top_k=0)
    presets = presets_over(own)
    assert list(presets) == ["steady", "natural", "lively"]
    for values in presets.values():
        assert set(values) < set(FIELDS)
        read = read_sampling(values, SamplingSettings())
        assert (read.audio_top_k, read.text_top_k) == (77, 0), "the checkpoint's"
    steady, natural, lively = (read_sampling(values, SamplingSettings()) for values in presets.values())
    assert (steady.audio_temperature, steady.text_temperature, steady.repetition_penalty) == (0.7, 0.7, 1.1)
    assert natural == own
    assert lively.audio_temperature > natural.audio_temperature and lively.text_temperature > natural.text_temperature


def test_natural_is_the_reference_s_where_the_checkpoint_says_nothing() -> None:
    natural = presets_over(SamplingSettings())["natural"]
    assert (natural["audio_temperature"], natural["audio_top_k"]) == (0.8, 250)
    assert (natural["text_temperature"], natural["text_top_k"], natural["repetition_penalty"]) == (0.7, 25, 1.0)
