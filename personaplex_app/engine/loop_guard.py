"""The loop guard: notices a persona that goes round in circles or says nothing, and steadies its sampling. Pure.

In: each frame's piece of text, whether the visitor speaks, the sampling that the visitor chose. Out: actions, and the
sampling that holds meanwhile. All times are counted in the talk's frames, so that a talk that waits for its visitor
goes on exactly where it was. Must not know: tokens, threads, who is told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.controls import MAX_PENALTY, SamplingSettings
from personaplex_app.engine.repeats import WINDOW_FRAMES, Repeats

SILENT_SECONDS = 30.0  # of a visitor's speech, without a word from the persona
STEADY_SECONDS = 3.0
MORE_PENALTY = 0.3
LESS_TEMPERATURE = 0.75

SILENT_FRAMES = int(SILENT_SECONDS / FRAME_SECONDS)
STEADY_FRAMES = math.ceil(STEADY_SECONDS / FRAME_SECONDS)

REPEATS, SILENT = "repeats", "silent"
NOTICED, STEADIED, PUT_BACK = "noticed", "steadied", "put_back"


@dataclass(frozen=True)
class GuardAction:
    """What the guard did after a frame of the talk.

    Attributes:
        action: `noticed`, `steadied` (which is noticed too) or `put_back`. reason: `repeats` or `silent`.
        phrase: what is repeated, else empty.
    """

    action: str
    reason: str
    frame: int
    phrase: str = ""

    @property
    def sentence(self) -> str:
        """What the visitor reads."""
        if self.action == PUT_BACK:
            return "Your own sampling holds again."
        what = f'The persona keeps saying "{self.phrase}".'
        if self.reason == SILENT:
            what = f"You spoke for {SILENT_SECONDS:.0f} s, and the persona has not said a word."
        return f"{what} Its sampling is steadied for {STEADY_SECONDS:.0f} s." if self.action == STEADIED else what


@dataclass(frozen=True)
class _Steadying:
    """From which sampling of the visitor's it began, why, and after which frame it is over."""

    base: SamplingSettings
    reason: str
    last_frame: int


class LoopGuard:
    """Watches one talk; it belongs to the thread that steps it.

    Args:
        allowed: whether it may change the sampling; otherwise it only tells. has_words: whether silence means anything.
    """

    def __init__(self, allowed: bool = False, has_words: bool = True) -> None:
        self.allowed = allowed
        self._has_words = has_words
        self._repeats = Repeats()
        self._silent_frames = 0
        self._steadying: _Steadying | None = None
        self._told = ""  # the reason of an alarm that still holds, of which nothing more is said
        self._told_until = 0

    def saw(self, piece: bytes, frame: int, user_speaks: bool, chosen: SamplingSettings) -> GuardAction | None:
        """What one frame leads to.

        Args:
            piece: UTF-8, empty for padding. chosen: what the visitor's sliders say.
        """
        phrase = self._repeats.saw(piece, frame)
        self._silent_frames = 0 if piece else self._silent_frames + user_speaks
        if self._steadying is not None:
            return self._put_back(frame) if frame >= self._steadying.last_frame else None
        silent = self._has_words and self._silent_frames > SILENT_FRAMES
        reason = REPEATS if phrase else SILENT if silent else ""
        if self._holds_still(reason, frame) or not reason:
            return None
        return self._alarm(reason, phrase, frame, chosen)

    def allow(self, allowed: bool, frame: int) -> GuardAction | None:
        """The visitor's choice changed: what is steadied is put back; who allows it while an alarm holds is helped."""
        self.allowed, self._told = allowed, ""
        return self._put_back(frame) if self._steadying is not None and not allowed else None

    def sampling(self, chosen: SamplingSettings) -> SamplingSettings:
        """What holds: the visitor's choice, or that steadied. A slider moved meanwhile holds as it stands."""
        if self._steadying is None:
            return chosen
        base = self._steadying.base
        steady = steadied(base)
        return replace(
            chosen,
            **{
                name: getattr(steady, name)
                for name in ("audio_temperature", "text_temperature", "repetition_penalty")
                if getattr(chosen, name) == getattr(base, name)
            },
        )

    def _alarm(self, reason: str, phrase: str, frame: int, chosen: SamplingSettings) -> GuardAction:
        if self.allowed and steadied(chosen) != chosen:
            self._steadying = _Steadying(chosen, reason, frame + STEADY_FRAMES)
            return GuardAction(STEADIED, reason, frame, phrase)
        self._told, self._told_until = reason, frame + WINDOW_FRAMES
        return GuardAction(NOTICED, reason, frame, phrase)

    def _holds_still(self, reason: str, frame: int) -> bool:
        """Whether an alarm holds that was only told; it is over once its reason has been gone for a while."""
        if self._told and reason == self._told:
            self._told_until = frame + WINDOW_FRAMES
        elif frame > self._told_until or (self._told == SILENT and reason == REPEATS):
            self._told = ""
        return bool(self._told)

    def _put_back(self, frame: int) -> GuardAction:
        """What comes from now on is judged afresh."""
        assert self._steadying is not None
        reason, self._steadying = self._steadying.reason, None
        self._repeats.clear()
        self._silent_frames = 0
        return GuardAction(PUT_BACK, reason, frame)


def steadied(sampling: SamplingSettings) -> SamplingSettings:
    """A higher penalty and lower temperatures; a greedy kind stays greedy, and what is highest already stays."""
    return replace(
        sampling,
        repetition_penalty=min(MAX_PENALTY, sampling.repetition_penalty + MORE_PENALTY),
        text_temperature=sampling.text_temperature * LESS_TEMPERATURE,
        audio_temperature=sampling.audio_temperature * LESS_TEMPERATURE,
    )
