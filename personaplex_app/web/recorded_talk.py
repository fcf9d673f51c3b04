"""A recorded talk as values for JSON: what was chosen and applied, who said what when, what it is. Pure.

All times are seconds of the recording, which begins at `recording.talk_second` of the talk.
In: a recording, what was said in it. Out: a mapping. Must not know: routes, sound.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from personaplex_app.audio import FRAME_SECONDS, SAMPLE_RATE_HZ
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.ports import Stepper
from personaplex_app.records.captions import SYNTHETIC
from personaplex_app.records.kept_speech import KeptSpeech
from personaplex_app.records.kept_words import KeptWords
from personaplex_app.records.transcript import Remark
from personaplex_app.records.turn_taking import PERSONA, YOU
from personaplex_app.records.xray import xray
from personaplex_app.web.recordings import Recorded

VERSION = 1
PERSONAPLEX = "nvidia/personaplex-7b-v1"
MINIATURE = "a trained miniature of its architecture"
RANDOM = "random weights of its architecture"
ECHO = "echo"


def model_of(stepper: Stepper) -> dict[str, Any]:
    """What speaks, by what its checkpoint says of itself: a name, and what names its files."""
    config = getattr(stepper, "config", None)  # an echo has none
    if config is None:
        return {"name": ECHO, "files": ""}
    name = RANDOM if config.random else MINIATURE if config.trained_positions is not None else PERSONAPLEX
    return {"name": name, "files": str(getattr(stepper, "identity", ""))}


def talk_values(one: Recorded, kept: KeptWords, model: dict[str, Any]) -> dict[str, Any]:
    """All of it but the sound and the X-ray."""
    return {
        "version": VERSION,
        "synthetic": True,
        "notice": SYNTHETIC,
        "model": model,
        "recording": {
            "talk_second": one.start_seconds,
            "seconds": one.sound.seconds,
            "sample_rate_hz": SAMPLE_RATE_HZ,
            "left": YOU,
            "right": PERSONA,
        },
        "choices": _choices(one.choices),
        "applied": [
            {"start": _start(one, applied.from_frame), "sampling": _sampling(applied.sampling)}
            for applied in one.applied
        ],
        "turns": [
            {"who": turn.who, "text": turn.text, "start": turn.start_seconds, "end": turn.end_seconds}
            for turn in kept.turns
        ],
        "words": [{"word": word.text, "start": word.start_seconds} for word in kept.words],
        "remarks": [
            {
                "action": remark.action,
                "reason": remark.reason,
                "phrase": remark.phrase,
                "sentence": remark.sentence,
                "start": remark.at_seconds,
            }
            for remark in kept.remarks
        ],
    }


def xray_values(speech: KeptSpeech, remarks: tuple[Remark, ...]) -> dict[str, Any] | None:
    """How the two sides talked with each other, as `xray` of docs/protocol.md; None for what is too short.

    It takes a while for a long recording, so call it in a thread.
    """
    return xray(speech.turns(), remarks)


def _choices(choices: Choices) -> dict[str, Any]:
    return {
        "prompt": choices.prompt,
        "voice": choices.voice,
        "seed": choices.seed,
        "loop_guard": choices.loop_guard,
        **_sampling(choices.sampling),
    }


def _sampling(sampling: SamplingSettings) -> dict[str, Any]:
    return asdict(sampling)


def _start(one: Recorded, frame: int) -> float:
    """In the recording; what held already when it began held from 0 on."""
    return round(max(0.0, (frame - (one.sound.first_frame or 0)) * FRAME_SECONDS), 3)
