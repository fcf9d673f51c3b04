"""Sampling in three flavours, for those who do not want to move five sliders. Pure.

In: the checkpoint's own sampling. Out: values by the names of the page's boxes. Must not know: gradio.
"""

from __future__ import annotations

from personaplex_app.controls import SamplingSettings

BOXES = ("audio_temperature", "text_temperature", "audio_top_k", "text_top_k", "repetition_penalty")


def presets_over(own: SamplingSettings) -> dict[str, dict[str, float]]:
    """What each preset puts into the boxes; `natural` is the checkpoint's own, and no preset touches its top-k.

    Args:
        own: what the checkpoint was made for; without a word of its own, the reference implementation's.
    """
    flavours = {
        "steady": own.changed(audio_temperature=0.7, text_temperature=0.7, repetition_penalty=1.1),
        "natural": own,
        "lively": own.changed(audio_temperature=0.95, text_temperature=0.9, repetition_penalty=1.0),
    }
    return {name: {box: getattr(sampling, box) for box in BOXES} for name, sampling in flavours.items()}
