"""One talk's course as a client sees it: what to answer to each message, and what a lost connection means. Pure.

In: the server's messages, losses of the connection, the time. Out: messages to send, how long to wait before the next
attempt, and how it all ended. Must not know: sockets, sound, tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from personaplex_app.client.messages import (
    Admitted,
    Ended,
    Event,
    Lost,
    Refused,
    StartedOver,
    TalkState,
    Turn,
    Waiting,
    Words,
)
from personaplex_app.errors import InvalidInput, NoCapacity, PersonaplexError, ServerFault, SessionEnded

GRANT_SECONDS = 25.0
RETRY_SECONDS = (0.0, 0.25, 0.5, 1.0, 2.0)  # the last one over and over
COME_BACK_LATER = ("no_capacity", "too_many_tickets", "too_many_joins", "draining", "no_ticket")
ENDS = ("stopped", "idle", "limit", "lost", "no_answer")
GONE = "The connection to the server was lost before the talk began. Try again."
GONE_FOR_GOOD = "The connection to the server was lost and did not come back in time."

Request = dict[str, Any]


class Phase(Enum):
    """Asking (and waiting in line), admitted, talking, cut off, over."""

    ASKING = "asking"
    ADMITTED = "admitted"
    TALKING = "talking"
    CUT_OFF = "cut off"
    OVER = "over"


def error_of(code: str, sentence: str) -> PersonaplexError:
    """A refusal as an error of our tree, by what its reader can do about it."""
    if code in COME_BACK_LATER:
        return NoCapacity(sentence, code=code)
    if code == "grant_unknown" or code in ENDS:
        return SessionEnded(sentence, code=code)
    if code in ("server_fault", "fault"):
        return ServerFault(sentence, code=code)
    return InvalidInput(sentence, code=code)


class Conversation:
    """From the question to the end.

    Args:
        path: `socket`, or `webrtc` where somebody else takes the ticket and carries the sound.
    Attributes:
        ended: the server's last word, where it had one. failure: why there is no talk, or no talk any more.
        begun: whether sound has ever travelled. losses: how often the connection was lost.
        retry: whether to come back a little later, on a fresh socket.
    """

    def __init__(self, choices: Mapping[str, Any], path: str = "socket") -> None:
        self.phase = Phase.ASKING
        self.ended: Ended | None = None
        self.failure: PersonaplexError | None = None
        self.state: TalkState | None = None
        self.transcript = ""
        self.begun = False
        self.losses = 0
        self.retry = False
        self._choices = dict(choices)
        self._path = path
        self._grant = ""
        self._attempts = 0
        self._cut_off_at: float | None = None

    @property
    def over(self) -> bool:
        """Nothing more will come."""
        return self.phase is Phase.OVER

    def opening(self) -> Request:
        """What is said first on a fresh socket."""
        if self._grant:
            return {"type": "resume", "grant": self._grant, "path": self._path}
        return {"type": "ask", "choices": self._choices}

    def heard(self, event: Event) -> list[Request]:
        """Takes a message; returns what to answer."""
        match event:
            case Turn():
                return [{"type": "answer"}]
            case Waiting():
                self._cut_off_at = None  # the server keeps the grant of whoever waits
            case Admitted():
                return self._admitted()
            case TalkState():
                self._stands(event)
            case StartedOver():
                self.transcript = ""
            case Words():
                self.transcript = event.text if event.from_start else self.transcript + event.text
            case Lost():
                self._grant, self.phase = event.grant, Phase.CUT_OFF
                return [self.opening()]
            case Refused():
                self._refused(event)
            case Ended():
                self._ended(event)
        return []

    def _admitted(self) -> list[Request]:
        if self.phase is not Phase.CUT_OFF:
            self.phase = Phase.ADMITTED
        return [{"type": "sound"}] if self._path == "socket" else []

    def _stands(self, state: TalkState) -> None:
        self.state, self._grant = state, state.grant
        self.phase = Phase.TALKING if state.state == "talking" else Phase.ADMITTED
        self.begun = self.begun or self.phase is Phase.TALKING
        self._attempts, self._cut_off_at = 0, None

    def _refused(self, refusal: Refused) -> None:
        """What is asked in a talk may be refused, and it goes on, whether it talks or reads a new prompt.

        An admitted visitor goes back to the line where others were quicker.
        """
        later = refusal.code in COME_BACK_LATER
        if self.phase is Phase.CUT_OFF and later:
            self.retry = True
        elif self.phase is Phase.ADMITTED and self.begun:
            return
        elif self.phase is Phase.ADMITTED and later:
            self.phase = Phase.ASKING
        elif self.phase is not Phase.TALKING:
            self.fail(error_of(refusal.code, refusal.sentence))

    def _ended(self, end: Ended) -> None:
        if self.phase is Phase.CUT_OFF and end.code in COME_BACK_LATER:
            self.retry = True
        elif self.begun:
            self.ended, self.phase = end, Phase.OVER
        else:
            self.fail(error_of(end.code, end.sentence))

    def fail(self, error: PersonaplexError) -> None:
        """There will be no talk, or none any more; the first reason stands."""
        if self.over:
            return
        self.failure, self.phase = error, Phase.OVER

    def disconnected(self, now: float) -> None:
        """The socket is gone: with a grant the talk may go on, without one it is over."""
        if self.over:
            return
        if not self._grant:
            self.fail(ServerFault(GONE, code="lost"))
            return
        self.phase, self.retry = Phase.CUT_OFF, False
        if self._cut_off_at is None:
            self.losses += 1
            self._cut_off_at = now

    def next_attempt(self, now: float) -> float:
        """Seconds to wait before the next attempt; the talk is over where the grant would have lapsed by then."""
        wait = RETRY_SECONDS[min(self._attempts, len(RETRY_SECONDS) - 1)]
        self._attempts += 1
        if self.seconds_left(now) <= wait:
            self.fail(ServerFault(GONE_FOR_GOOD, code="lost"))
        return wait

    def seconds_left(self, now: float) -> float:
        """How long the grant holds."""
        return GRANT_SECONDS if self._cut_off_at is None else self._cut_off_at + GRANT_SECONDS - now
