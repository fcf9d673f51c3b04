"""Who spoke when in a recorded stretch of a talk, kept small, and played over again where its X-ray is asked for. Pure.

In: a talk's decisions and levels of both sides, the stretch in frames. Out: the same as if the stretch were a talk of
its own: nothing of what was before it or after it. Must not know: sound, the web.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from personaplex_app.records.speech_gate import Decision
from personaplex_app.records.speech_turns import SpeechTurns
from personaplex_app.records.turn_taking import SIDES


@dataclass(frozen=True)
class KeptSpeech:
    """Each side's decisions and levels, a byte a frame each."""

    speech: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    levels_db: dict[str, npt.NDArray[np.int8]] = field(default_factory=dict)

    def turns(self) -> SpeechTurns:
        """Played over again: takes 0.1 s for half an hour."""
        played = SpeechTurns()
        for side, speech in self.speech.items():
            for frame, (spoke, level) in enumerate(zip(speech.tolist(), self.levels_db[side].tolist(), strict=True)):
                played.decided(side, frame, Decision(spoke, 0, float(level)))
        return played


def kept_speech(spoke: SpeechTurns, first_frame: int, frames: int) -> KeptSpeech:
    """What belongs to `frames` frames of a talk from `first_frame` on."""
    stretch = slice(first_frame, first_frame + frames)
    return KeptSpeech(
        {side: spoke.speech(side)[stretch].copy() for side in SIDES},
        {side: spoke.levels_db(side)[stretch].copy() for side in SIDES},
    )
