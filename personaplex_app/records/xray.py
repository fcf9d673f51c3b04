"""The X-ray of a talk: how its two sides talked with each other, in figures and in a picture's lines. Pure.

Terms are `turn_taking`'s. Figures of a side:

- *talk seconds*: frames in which it speaks; its *share* is of what both sides talk together.
- *gaps*: how long the other side's turn had been over when this side took the floor; a transfer by overlap counts among
  the *transfers*, whose median is signed, and is no gap. The persona's gaps are its response times; what the way of the
  sound adds to them is not in them.
- *interruptions*: begun by this side; in *other yielded* of them the other side fell silent first.
- *longest turn*: its longest monologue, from the first to the last frame. *backchannels*: its own.
- *loudness*: mean power of the frames in which it speaks, in dBFS.

Of both: *overlap*, both speak; *silence*, nobody does; *silences*, those of 2 s and more.

In: who spoke when. Out: values for JSON, bounded to less than 100 KB. Must not know: sound, the web.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.records.speech_turns import SpeechTurns
from personaplex_app.records.transcript import Remark
from personaplex_app.records.turn_taking import OTHER, PERSONA, SIDES, YOU, TurnTaking

SHORTEST_SECONDS = 5.0
SILENCE_FRAMES = 25  # 2 s
MOST_SEGMENTS = 1500  # of a side; where there are more the shortest pauses are left out
MOST_MARKS = 300
ECHO = "echo"

Runs = list[tuple[int, int]]


@dataclass(frozen=True)
class Times:
    """Several durations at a glance; without any all but the count are None."""

    count: int
    median_seconds: float | None
    p90_seconds: float | None
    longest_seconds: float | None


@dataclass(frozen=True)
class Side:
    """One side's figures; see above."""

    talk_seconds: float
    talk_share: float
    turns: int
    longest_turn_seconds: float
    backchannels: int
    interruptions: int
    other_yielded: int
    gaps: Times
    transfers: Times
    loudness_dbfs: float | None


@dataclass(frozen=True)
class Both:
    """What both sides have together."""

    overlap_seconds: float
    silence_seconds: float
    silences: int
    longest_silence_seconds: float


def xray(spoke: SpeechTurns, remarks: Iterable[Remark] = ()) -> dict[str, Any] | None:
    """The whole, or None for a talk that is too short to say anything of.

    Returns:
        `seconds` of the talk; `figures` of `you`, `persona` and `both`; `segments`: for each side where it speaks, as
        `[start, end]` in seconds; `marks` at their `second`: of kind `interruption` (`by`, `yielded`), `guard` or
        `echo` (`action`, `reason`).
    """
    seconds = spoke.frames * FRAME_SECONDS
    if seconds < SHORTEST_SECONDS:
        return None
    speech = {side: _filled(spoke.speech(side), spoke.frames) for side in SIDES}
    taking = spoke.taking()
    talked = {side: int(speech[side].sum()) for side in SIDES}
    sides = {
        side: asdict(_side(side, taking, talked, _loudness(spoke.levels_db(side), spoke.speech(side))))
        for side in SIDES
    }
    return {
        "seconds": _seconds(spoke.frames),
        "figures": {**sides, "both": asdict(_both(speech[YOU], speech[PERSONA]))},
        "segments": {side: _segments(_runs(speech[side])) for side in SIDES},
        "marks": _marks(taking, remarks),
    }


def _side(side: str, taking: TurnTaking, talked: dict[str, int], loudness_dbfs: float | None) -> Side:
    turns = [one.end - one.start for one in taking.turns if one.side == side]
    offsets = [one.offset for one in taking.transfers if one.to == side]
    begun = [one for one in taking.interruptions if one.by == side]
    together = sum(talked.values())
    return Side(
        talk_seconds=_seconds(talked[side]),
        talk_share=round(talked[side] / together, 3) if together else 0.0,
        turns=len(turns),
        longest_turn_seconds=_seconds(max(turns, default=0)),
        backchannels=sum(one.side == side for one in taking.backchannels),
        interruptions=len(begun),
        other_yielded=sum(one.yielded == OTHER[side] for one in begun),
        gaps=_times([offset for offset in offsets if offset >= 0]),
        transfers=_times(offsets),
        loudness_dbfs=loudness_dbfs,
    )


def _both(you: npt.NDArray[np.bool_], persona: npt.NDArray[np.bool_]) -> Both:
    silent = ~(you | persona)
    lengths = [end - start for start, end in _runs(silent)]
    return Both(
        overlap_seconds=_seconds(int((you & persona).sum())),
        silence_seconds=_seconds(int(silent.sum())),
        silences=sum(length >= SILENCE_FRAMES for length in lengths),
        longest_silence_seconds=_seconds(max(lengths, default=0)),
    )


def _times(frames: Sequence[int]) -> Times:
    """The 90th percentile is one of them, the nearest by rank; the median of an even count lies between two."""
    if not frames:
        return Times(0, None, None, None)
    ordered = sorted(frames)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    p90 = ordered[-(-9 * len(ordered) // 10) - 1]
    return Times(len(ordered), _seconds(middle), _seconds(p90), _seconds(ordered[-1]))


def _loudness(levels_db: npt.NDArray[np.int8], speech: npt.NDArray[np.bool_]) -> float | None:
    if not speech.any():
        return None
    return round(float(10 * np.log10(np.mean(10 ** (levels_db[speech].astype(np.float64) / 10)))), 1)


def _filled(speech: npt.NDArray[np.bool_], frames: int) -> npt.NDArray[np.bool_]:
    """As long as the talk."""
    whole = np.zeros(frames, dtype=np.bool_)
    whole[: len(speech)] = speech
    return whole


def _runs(flags: npt.NDArray[np.bool_]) -> Runs:
    """Where they are set: each stretch from its first frame to the one after its last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def _segments(runs: Runs) -> list[list[float]]:
    while len(runs) > MOST_SEGMENTS:
        runs = _without_shortest_pauses(runs, len(runs) - MOST_SEGMENTS)
    return [[_seconds(start), _seconds(end)] for start, end in runs]


def _without_shortest_pauses(runs: Runs, count: int) -> Runs:
    pauses = sorted(range(1, len(runs)), key=lambda at: (runs[at][0] - runs[at - 1][1], at))
    closed = set(pauses[:count])
    joined: Runs = []
    for at, (start, end) in enumerate(runs):
        if at in closed:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _marks(taking: TurnTaking, remarks: Iterable[Remark]) -> list[dict[str, Any]]:
    marks: list[dict[str, Any]] = [
        {"second": _seconds(one.frame), "kind": "interruption", "by": one.by, "yielded": one.yielded}
        for one in taking.interruptions
    ]
    for one in remarks:
        kind = ECHO if one.reason == ECHO else "guard"
        marks.append({"second": round(one.at_seconds, 2), "kind": kind, "action": one.action, "reason": one.reason})
    return sorted(marks, key=lambda mark: float(mark["second"]))[:MOST_MARKS]


def _seconds(frames: float) -> float:
    return round(frames * FRAME_SECONDS, 2)
