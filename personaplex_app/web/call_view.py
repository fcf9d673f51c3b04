"""What the page says of a call: one value, made from the session, in words. Pure.

Must not know: gradio, FastRTC.
"""

from __future__ import annotations

from dataclasses import dataclass

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.web.form import describe_sampling

CONNECTING = "Connecting ..."


@dataclass(frozen=True)
class CallView:
    """What three boxes of the page show, and whether the call is over."""

    transcript: str = ""
    status: str = CONNECTING
    applied: str = ""
    over: bool = False


def refused(sentence: str) -> CallView:
    """A call that never got a slot."""
    return CallView(status=sentence, over=True)


def view_session(session: Session, notice: str = "") -> CallView:
    """The page's words for a session as it stands; `notice` is a remark on what the visitor just changed."""
    applied = session.applied
    from_second = applied.from_frame * FRAME_SECONDS
    words = f"From frame {applied.from_frame} ({from_second:.1f} s): {describe_sampling(applied.sampling)}"
    words += f". Voice {session.choices.voice}, seed {session.choices.seed}."
    status = status_words(session)
    return CallView(
        transcript=session.transcript.text,
        status=f"{status} {notice}".strip(),
        applied=words,
        over=session.state is SessionState.ENDED,
    )


def status_words(session: Session) -> str:
    """Priming, talking, slower than real time, or ended because."""
    if session.state is SessionState.ENDED:
        return f"Ended: {session.ended_because}"
    if session.state is SessionState.PRIMING:
        return "Priming: the persona reads its prompt ..."
    if session.stalled:
        return "Talking, but the engine has not answered for a moment ..."
    if session.slow:
        dropped = session.counters.heard_dropped
        return f"Talking, but slower than real time here: {dropped} frames of what you said were dropped."
    return "Talking. Speak whenever you like."
