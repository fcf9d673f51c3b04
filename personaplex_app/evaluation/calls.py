"""What a measuring call is asked to do, and what came of it. Pure.

Must not know: sockets, processes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from personaplex_app.audio import Pcm
from personaplex_app.client.pace import Pace
from personaplex_app.client.timeline import Timeline
from personaplex_app.evaluation.markers import LONGEST_SECONDS, bursts_until, delays_seconds

KINDS = ("socket", "webrtc")
SETTLE_SECONDS = 0.5  # a talk's first moments, not measured
CUSHION_SECONDS = 0.04  # how much sound the ear keeps waiting, as a browser would
MOST_WAITING_SECONDS = 0.24


@dataclass(frozen=True)
class CallPlan:
    """One call; moments are seconds of the machine's steady clock, the same in every process."""

    number: int
    kind: str
    url: str
    auth: tuple[str, str] | None
    begins_at: float
    ends_at: float


@dataclass
class CallResult:
    """What became of a call.

    Attributes:
        outcome: `completed`, `refused` before it began, or `failed`. code, sentence: why, where it was not completed.
        connect_ms: from the question to the talk. heard_seconds: sound that came. gaps, gap_ms: where it ran dry.
        shed_ms: what the ear left out since it came in a heap.
        delays_ms: of each burst that was heard again. bursts: how many should have been.
        late_pieces, worst_late_ms: how well this caller kept its own schedule. packets_lost: of RTP, for WebRTC.
        losses: of the socket, found again or not.
    """

    number: int
    kind: str
    outcome: str = "failed"
    code: str = ""
    sentence: str = ""
    connect_ms: float | None = None
    seconds: float = 0.0
    heard_seconds: float = 0.0
    gaps: int = 0
    gap_ms: float = 0.0
    shed_ms: float = 0.0
    bursts: int = 0
    delays_ms: list[float] = field(default_factory=list)
    pieces: int = 0
    late_pieces: int = 0
    worst_late_ms: float = 0.0
    unsent: int = 0
    losses: int = 0
    packets_lost: int | None = None
    round_trip_ms: float | None = None
    counters: dict[str, Any] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether the talk ever ran."""
        return self.connect_ms is not None


class Listening:
    """Mouth and ear of one running call, on one clock: second 0 is when the mouth's first piece began to be said.

    Args:
        pace: the mouth's schedule; a piece is due when its 20 ms are over.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._timeline = Timeline(CUSHION_SECONDS, MOST_WAITING_SECONDS)
        self._heard_samples = 0

    @property
    def zero(self) -> float:
        """The moment of second 0."""
        return self.pace.start - self.pace.step_seconds

    def hear(self, pcm: Pcm, at: float) -> None:
        """Takes float32 [n] that came at a moment of the steady clock."""
        if not self.pace.pieces:
            return  # nothing has been said yet, so there is no second 0
        self._heard_samples += len(pcm)
        self._timeline.place(pcm, at - self.zero)

    def measure(self, result: CallResult, talking_since: float, until: float) -> None:
        """Fills in the figures, once the call is over; bursts too late to come back in time are not counted."""
        first, last = talking_since - self.zero + SETTLE_SECONDS, until - self.zero - LONGEST_SECONDS
        bursts = [burst for burst in bursts_until(max(0.0, last)) if burst.at_seconds >= first]
        delays = delays_seconds(bursts, self._timeline.track())
        result.bursts = len(bursts)
        result.delays_ms = [round(1000 * delay, 2) for delay in delays if delay is not None]
        result.seconds = round(until - talking_since, 3)
        result.heard_seconds = round(self._heard_samples / 24_000, 3)
        result.gaps, result.gap_ms = self._timeline.gaps, round(1000 * self._timeline.gap_seconds, 1)
        result.shed_ms = round(1000 * self._timeline.shed_seconds, 1)
        result.pieces, result.late_pieces = self.pace.pieces, self.pace.late
        result.worst_late_ms = round(1000 * self.pace.worst_seconds, 1)
