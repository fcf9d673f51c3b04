"""The real server with a window into it, for browser tests: sessions as JSON, and faults on demand.

PROBE_OUT: file that gets every session's tokens, transcript and counters, threads and peers, ten times a second.
PROBE_FAIL: while this file exists, the next step raises. PROBE_STEP_SECONDS: how long each step sleeps first.
PROBE_LIMIT: while this file exists, every talk has lasted as long as it may.
PROBE_HANG: while this file exists, a step does not come back. PROBE_HUNG_SECONDS: when such a step is given up.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from personaplex_app.cli import main  # noqa: E402
from personaplex_app.engine import call_clock, tick_loop  # noqa: E402
from personaplex_app.engine.facade import Engine  # noqa: E402
from personaplex_app.web import front, server  # noqa: E402

OUT, FAIL, LIMIT, HANG = (os.environ.get(f"PROBE_{name}") for name in ("OUT", "FAIL", "LIMIT", "HANG"))
tick_loop.HUNG_SECONDS = float(os.environ.get("PROBE_HUNG_SECONDS", tick_loop.HUNG_SECONDS))
SLEEP_SECONDS = float(os.environ.get("PROBE_STEP_SECONDS", "0"))
_sessions: list[Any] = []
_components: list[Any] = []


def _noted(method: Any) -> Any:
    def note(*args: Any, **options: Any) -> Any:
        _sessions.append(method(*args, **options))
        return _sessions[-1]

    return note


Engine.join = _noted(Engine.join)  # type: ignore[method-assign]
Engine.resume = _noted(Engine.resume)  # type: ignore[method-assign]


def _dump(path: Path) -> None:
    while True:
        found = [
            {
                "tokens": list(session.text_tokens),
                "transcript": session.transcript.text,
                "state": session.state.value,
                "because": session.ended_because,
                "counters": vars(session.counters),
                "applied": [session.applied.from_frame, session.applied.sampling.audio_temperature],
                "generation": session.tenancy.generation,
            }
            for session in _sessions
        ]
        partial = path.with_suffix(".partial")
        peers = sum(len(component.pcs) for component in _components)
        partial.write_text(json.dumps({"sessions": found, "threads": threading.active_count(), "peers": peers}))
        partial.replace(path)
        time.sleep(0.1)


def _make(settings: Any, report: Any) -> Any:
    stepper, catalogue = _make_stepper(settings, report)
    step = stepper.step

    def probed(heard: Any) -> Any:
        if FAIL and Path(FAIL).exists():
            raise RuntimeError("a fault that the test asked for")
        while HANG and Path(HANG).exists():
            time.sleep(0.01)
        time.sleep(SLEEP_SECONDS)
        return step(heard)

    stepper.step = probed
    return stepper, catalogue


def _make_component(*args: Any, **options: Any) -> Any:
    _components.append(_make_call_component(*args, **options))
    return _components[-1]


def _lasted(clock: Any, now: float) -> float:
    return float("inf") if LIMIT and Path(LIMIT).exists() else _lasted_seconds(clock, now)


_lasted_seconds = call_clock.CallClock.lasted_seconds
call_clock.CallClock.lasted_seconds = _lasted  # type: ignore[method-assign]
_make_call_component = front.make_call_component
front.make_call_component = _make_component
_make_stepper = server.make_stepper
server.make_stepper = _make

if __name__ == "__main__":
    if OUT:
        threading.Thread(target=_dump, args=(Path(OUT),), daemon=True).start()
    sys.exit(main(["serve", *sys.argv[1:]]))
