"""How a talk fares, as far as only the server can know: what a step takes, what waits, what was dropped. Pure.

In: a session, the engine's step, the way out where FastRTC has one. Out: the fields of a `health` message.
Must not know: sockets, what the client makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from personaplex_app.audio import FRAME_MS
from personaplex_app.engine.ports import Stepper
from personaplex_app.engine.session import Session
from personaplex_app.web.pacing import PACKET_MS, PacingCounters
from personaplex_app.web.recorded_talk import model_of


@dataclass(frozen=True)
class Outlet:
    """A connection's queue of sound: how much waits in it, and what its pacing did."""

    waiting_ms: Callable[[], float]
    counters: PacingCounters


def health_of(session: Session, step_ms: float, outlet: Outlet | None) -> dict[str, Any]:
    """What waits now, and totals of the talk in frames; `late_ms` is the connection's, None without an outlet."""
    heard, spoken = session.queues.waiting
    counters = session.counters
    return {
        "step_ms": round(step_ms, 1),
        "stalled": session.stalled,
        "heard_ms": round(heard * FRAME_MS),
        "spoken_ms": round(spoken * FRAME_MS + (outlet.waiting_ms() if outlet else 0.0)),
        "frames": counters.stepped,
        "dropped": counters.heard_dropped,
        "unsent": counters.spoken_dropped,
        "missed": counters.missed,
        "filled": counters.silence_filled,
        "late_ms": outlet.counters.filled_packets * PACKET_MS if outlet else None,
    }


def engine_facts(stepper: Stepper) -> dict[str, str]:
    """What runs and where; empty where it is not known, as of an echo."""
    runs_as = getattr(stepper, "runs_as", None)
    named = {name: str(getattr(runs_as, name, "")) for name in ("precision", "past", "where")}
    return {"name": str(model_of(stepper)["name"]), **named}
