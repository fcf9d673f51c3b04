"""Offline rendering: a sound file's worth of heard frames through the same stepper, as fast as it goes.

In: a stepper, an opening, heard PCM. Out: spoken PCM of the same length, tokens, transcript.
Must not know: files, the command line, real time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from personaplex_app.audio import Pcm, split_frames
from personaplex_app.errors import ServerFault
from personaplex_app.records.transcript import Transcript


class OfflineStepper(Protocol):
    """What rendering needs of a stepper; slot 0 is used."""

    def prime(self, slot: int, opening: Any) -> None: ...

    def step(self, heard: dict[int, Pcm]) -> dict[int, Any]: ...

    def text(self, token: int) -> bytes: ...


@dataclass(frozen=True)
class Rendered:
    """What came out.

    Attributes:
        pcm: float32, as long as what was heard. tokens: int64 [9, T], text and agent codes; column i answers frame i.
        heard: int64 [8, T]. frame_ms: milliseconds of every step.
    """

    pcm: Pcm
    tokens: npt.NDArray[np.int64]
    heard: npt.NDArray[np.int64]
    transcript: Transcript
    prime_ms: float
    frame_ms: list[float]


Progress = Callable[[Iterable[Pcm]], Iterable[Pcm]]


def render(stepper: OfflineStepper, opening: Any, pcm: Pcm, progress: Progress = lambda frames: frames) -> Rendered:
    """Plays float32 [samples] to the model and collects what it says.

    Raises ServerFault where the model's numbers stop being finite.
    """
    began = time.perf_counter()
    stepper.prime(0, opening)
    prime_ms = 1000 * (time.perf_counter() - began)
    transcript, steps, frame_ms = Transcript(), [], []
    for index, frame in enumerate(progress(list(split_frames(pcm)))):
        began = time.perf_counter()
        step = stepper.step({0: frame})[0]
        frame_ms.append(1000 * (time.perf_counter() - began))
        if not step.healthy:
            raise ServerFault(f"The model's numbers stopped being finite at frame {index}.")
        transcript.add(stepper.text(step.text_token), index)
        steps.append(step)
    spoken = np.concatenate([step.pcm for step in steps])[: len(pcm)]
    tokens = np.stack([step.tokens for step in steps], axis=1)
    heard = np.stack([step.heard_codes for step in steps], axis=1)
    return Rendered(spoken, tokens, heard, transcript, prime_ms, frame_ms)
