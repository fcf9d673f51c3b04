"""A voice's preview: the model itself says a few seconds in it, to nobody, in a slot that nobody else wants.

In: an engine, a voice's name. Out: a piece of work for the tick thread that returns the spoken part, float32 24 kHz.
Must not know: files, routes, when previews are made.

Every voice is made to say the same with the same random numbers: a desk that answers the phone, since those who answer
a phone speak first, also where nothing but silence is heard.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import soundfile

from personaplex_app.audio import FRAME_RATE_HZ, SAMPLE_RATE_HZ, Pcm, int16_from_float, silence
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.facade import Engine
from personaplex_app.engine.readying import PromptKeeper
from personaplex_app.errors import NoCapacity, ServerFault
from personaplex_app.voices import voice_kind

VERSION = 1  # of all that decides what is heard; another one makes previews anew
SEEDS = (1, 2, 3)  # the next where nothing was said
PROMPT = "You work for Blue River which is a bike shop and your name is {name}."
NAMES = {"female": "Kate", "male": "Martin", "": "Alex"}
FRAMES = round(4 * FRAME_RATE_HZ)
MOST_FRAMES = round(10 * FRAME_RATE_HZ)  # until it begins to speak, and speaks
LEAD_FRAMES, TRAIL_FRAMES = 1, 2  # of quiet, before and after what is said
LEAST_LOUD_FRAMES = 6
LOUD = 0.01  # root mean square of a frame in which something is said
MOST_LOUD = 0.1  # of a whole preview: random weights give noise at full scale
FADE_SAMPLES = SAMPLE_RATE_HZ // 20
SILENT = "The voice {voice} said nothing to a silent listener, so there is no preview of it."
NOT_FINITE = "The model's numbers stopped being finite while it spoke the preview of {voice}."
BUSY = "Somebody is talking, and this server makes previews only while nobody does. Try again in a minute."


def preview_choices(voice: str, sampling: SamplingSettings, seed: int) -> Choices:
    """What a preview's talk begins with."""
    _, gender = voice_kind(voice)
    return Choices(PROMPT.format(name=NAMES[gender]), voice, sampling, seed)


def open_preview(engine: Engine, voice: str, sampling: SamplingSettings) -> list[Any]:
    """What `preview_pieces` takes; reads files, so call it in a thread. Raises InvalidInput for what is no voice."""
    openings = [engine.stepper.open(preview_choices(voice, sampling, seed)) for seed in SEEDS]
    return [replace(one, known_as=None) if hasattr(one, "known_as") else one for one in openings]  # kept by nobody


def preview_pieces(engine: Engine, voice: str, openings: Sequence[Any]) -> Generator[None, None, Pcm]:
    """An errand that returns about 4 s of speech.

    Raises NoCapacity where there is no slot for it or a visitor took it back, or where a prompt is read in one go and
    somebody would have to wait for that; ServerFault (code `silent`) for a voice that says nothing.
    """
    for opening in openings:
        if engine.status.talking and not isinstance(engine.stepper, PromptKeeper):
            raise NoCapacity(BUSY)
        frames = yield from _talk(engine, voice, opening)
        if len(_loud(frames)) >= LEAST_LOUD_FRAMES:
            return spoken_part(frames)
    raise ServerFault(SILENT.format(voice=voice), code="silent")


def _talk(engine: Engine, voice: str, opening: Any) -> Generator[None, None, list[Pcm]]:
    """A talk with somebody who is silent, until enough was said."""
    stepper, frames = engine.stepper, list[Pcm]()
    with engine.lend() as loan:
        for _ in stepper.prime_pieces(loan.slot, opening):
            yield
            _ = loan.slot  # raises where it was taken back
        while not _is_enough(frames):
            yield
            step = stepper.step({loan.slot: silence()})[loan.slot]
            if not step.healthy:
                raise ServerFault(NOT_FINITE.format(voice=voice))
            frames.append(step.pcm)
    return frames


def _is_enough(frames: Sequence[Pcm]) -> bool:
    loud = _loud(frames)
    return len(frames) >= MOST_FRAMES or (len(loud) > 0 and len(frames) >= max(loud[0] - LEAD_FRAMES, 0) + FRAMES)


def _loud(frames: Sequence[Pcm]) -> list[int]:
    return [index for index, frame in enumerate(frames) if _level(frame) > LOUD]


def _level(pcm: Pcm) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(pcm))))


def spoken_part(frames: Sequence[Pcm]) -> Pcm:
    """The first seconds from where speech begins, without the quiet behind them; the ends are faded.

    What is louder than anybody speaks is turned down.
    Args:
        frames: float32 [1920] each, some of them loud.
    """
    loud = _loud(frames)
    first = max(loud[0] - LEAD_FRAMES, 0)
    last = min([index for index in loud if index < first + FRAMES][-1] + TRAIL_FRAMES, first + FRAMES - 1)
    pcm = np.concatenate(frames[first : last + 1])
    ramp = np.linspace(0.0, 1.0, FADE_SAMPLES, dtype=np.float32)
    pcm[: len(ramp)] *= ramp
    pcm[-len(ramp) :] *= ramp[::-1]
    return pcm * np.float32(min(1.0, MOST_LOUD / _level(pcm)))


def wav_bytes(pcm: Pcm) -> bytes:
    """float32 [n] as a mono 24 kHz 16-bit WAV file."""
    file = io.BytesIO()
    soundfile.write(file, int16_from_float(pcm), SAMPLE_RATE_HZ, subtype="PCM_16", format="WAV")
    return file.getvalue()
