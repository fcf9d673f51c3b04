"""What the visitor is told of a talk: values made from it, in words. Pure.

Must not know: gradio, FastRTC, sockets.
"""

from __future__ import annotations

from typing import Any

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.facade import EngineStatus
from personaplex_app.engine.past import Past
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.engine.slots import full_sentence
from personaplex_app.web.form import describe_sampling

PATH_WORDS = {"webrtc": "", "socket": "Over the socket. "}
PRIMING = "Priming: the persona reads its prompt ..."
SHOWN_COUNTERS = ("heard_dropped", "spoken_dropped", "silence_filled", "missed")


def talk_view(session: Session, path: str, notice: str = "") -> dict[str, Any]:
    """The fields of a `talk` message; `notice` is a remark on what the visitor just changed.

    A grant is told once it is worth something: a talk that is lost before it has begun is asked for anew.
    """
    sentence = f"{PATH_WORDS[path]}{status_words(session)} {notice}".strip()
    return {
        "state": session.state.value,
        "sentence": sentence,
        "path": path,
        "grant": session.grant if session.resumable else "",
        "applied": applied_words(session),
        "seed": str(session.choices.seed),
        "frames": session.counters.stepped,
        "window": window_view(session.past),
        "resumed": session.resumed,
        "counters": {name: getattr(session.counters, name) for name in SHOWN_COUNTERS},
    }


def window_view(past: Past) -> dict[str, Any] | None:
    """The model's window and what this talk has used of it, in positions; None where there is none."""
    if past.window is None:
        return None
    return {
        "positions": past.window.positions,
        "kept": past.window.kept_frames,
        "prompt": past.prompt,
        "used": past.used,
        "renewals": past.renewals,
        "overflows": past.overflows,
        "forgot_prompt": past.forgot_prompt,
    }


def standing(view: dict[str, Any]) -> dict[str, Any]:
    """A view without what every frame moves on: a client counts that by itself, from the last that it was told."""
    window = view["window"]
    return {**view, "frames": 0, "window": window and {**window, "used": 0}}


def applied_words(session: Session) -> str:
    """Every value that holds, and since when."""
    applied = session.applied
    from_second = applied.from_frame * FRAME_SECONDS
    words = f"From frame {applied.from_frame} ({from_second:.1f} s): {describe_sampling(applied.sampling)}"
    return f"{words}. Voice {session.choices.voice}, seed {session.choices.seed}."


def status_words(session: Session) -> str:
    """Priming, talking, or slower than real time."""
    if session.state is SessionState.PRIMING:
        return "Waiting: the engine has not answered for a moment ..." if session.stalled else PRIMING
    if session.stalled:
        return "Talking, but the engine has not answered for a moment ..."
    if session.queues.slow:
        seconds = max(1, round(session.counters.heard_dropped * FRAME_SECONDS))  # whole ones: this is read aloud
        return f"Talking, but slower than real time here: about {seconds} s of what you said was dropped."
    return "Talking. Speak whenever you like."


def lines_words(status: EngineStatus, free: int, waiting: int, draining: str) -> str:
    """What the page says before the talk; `free`: slots that are promised to nobody."""
    if status.failed or draining:
        return status.failed or draining
    if free and not waiting:
        return f"Ready: {free} of {status.slots} lines free."
    line = f" {waiting} in the line." if waiting else ""
    return f"{full_sentence(status.slots)}{line}"


def line_words(place: int, seconds: float) -> str:
    """What somebody in the line reads: the place, and how long it may take."""
    about = f"{max(1, round(seconds / 60))} min" if seconds >= 60 else f"{max(5, round(seconds / 5) * 5)} s"
    return f"All lines are taken. You are number {place} in the line; about {about} to wait."
