"""What a server says, as values: one class a message, all of them an `Event`. Pure.

In: the fields that docs/protocol.md names. Out: frozen values.
Must not know: sockets, how a message is read, what follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Hello:
    """The first message of a socket."""

    protocol: int
    sample_rate_hz: int
    frame_samples: int
    slots: int
    free: int


@dataclass(frozen=True)
class Waiting:
    """We are in the line, `place` of `of`; the estimate is None where the server has none."""

    place: int
    of: int
    estimate_seconds: float | None
    sentence: str


@dataclass(frozen=True)
class Turn:
    """It is our turn; the line answers by itself, within `seconds`."""

    seconds: float
    sentence: str


@dataclass(frozen=True)
class Admitted:
    """We may open a path for the sound: a WebRTC peer that brings the ticket, or this socket."""

    ticket: str = field(repr=False)
    ice_servers: list[Any] = field(repr=False)
    connect_seconds: float


@dataclass(frozen=True)
class TalkState:
    """How the talk stands, at each change. `grant` is the secret that resumes it.

    Attributes:
        state: `priming` or `talking`. path: `webrtc` or `socket`. applied: the sampling that holds, in words.
        resumed: whether this talk went on after a lost connection. counters: what went through so far, in frames.
        seed: as a number's digits. frames: of the talk, by now. window: what the model remembers, in positions; None
            where it remembers nothing.
    """

    state: str
    sentence: str
    path: str
    grant: str = field(repr=False)
    applied: str
    resumed: bool
    counters: dict[str, Any]
    seed: str
    frames: int
    window: dict[str, Any] | None


@dataclass(frozen=True)
class StartedOver:
    """The talk begins anew: nothing that was said of it before counts any more."""

    sentence: str


@dataclass(frozen=True)
class Words:
    """More of what the persona says; `from_start` replaces all that came before."""

    text: str
    from_start: bool


@dataclass(frozen=True)
class Said:
    """A turn of one side, new or changed; each comes anew after a resume.

    Attributes:
        number: counts the turns of `who`, which is `persona` or `you`, from 0. text: all of it so far; empty for
            `you`, the visitor. start, end: seconds of the talk; None while it goes on.
    """

    number: int
    who: str
    text: str
    start: float
    end: float | None


@dataclass(frozen=True)
class Guard:
    """The server's loop guard noticed something or changed the sampling.

    Attributes:
        number: counts a talk's from 0. action: `noticed`, `steadied` or `put_back`. reason: `repeats` or `silent`.
        phrase: what is repeated, or empty. second: of the talk.
    """

    number: int
    action: str
    reason: str
    phrase: str
    second: float
    sentence: str


@dataclass(frozen=True)
class Echo:
    """The persona began to hear itself through our microphone, or does so no more.

    Attributes:
        number: counts a talk's from 0. action: `began` or `over`. lag_ms: from a step to its sound at the server.
        level_db: of what is heard, against what was spoken. second: of the talk.
    """

    number: int
    action: str
    lag_ms: int
    level_db: int
    second: float
    sentence: str


@dataclass(frozen=True)
class Xray:
    """How both talked with each other, right before the end; docs/protocol.md tells what is in it."""

    seconds: float
    figures: dict[str, Any]
    segments: dict[str, Any]
    marks: list[Any]


@dataclass(frozen=True)
class Recording:
    """The server keeps the talk's sound and words, or keeps what it has, or none.

    Attributes:
        id: of the recording at `recordings/ID.wav`; empty where there is none. on: whether it goes on. seconds: its
            length. start: the talk's second at which it begins. expires_seconds: until it is dropped; None while on.
    """

    id: str
    on: bool
    seconds: float
    start: float
    expires_seconds: float | None
    sentence: str


@dataclass(frozen=True)
class Notice:
    """The talk will end in `seconds`: code `idle`, `limit` or `draining`."""

    code: str
    seconds: float
    sentence: str


@dataclass(frozen=True)
class Refused:
    """What we asked was refused; what ran before goes on."""

    code: str
    sentence: str


@dataclass(frozen=True)
class Lost:
    """The server heard nothing any more; the grant resumes the talk within `seconds`."""

    grant: str = field(repr=False)
    seconds: float
    sentence: str


@dataclass(frozen=True)
class Ended:
    """The talk is over: `stopped`, `idle`, `limit`, `lost`, `fault`, `no_answer` or `draining`."""

    code: str
    sentence: str


@dataclass(frozen=True)
class Health:
    """How the talk fares on the server, about once a second; counts are totals of the talk, in frames.

    Attributes:
        step_ms: of a model's step, of late. stalled: whether one is overdue. heard_ms, spoken_ms: sound that waits for
            the model, and for the way to us. dropped, unsent: heard and spoken frames that were left out. missed:
            frames that a step went by without. filled: frames of silence, where none came from us in time. late_ms:
            silence sent where speech came late, by WebRTC only.
    """

    step_ms: float
    stalled: bool
    heard_ms: float
    spoken_ms: float
    frames: int
    dropped: int
    unsent: int
    missed: int
    filled: int
    late_ms: float | None


@dataclass(frozen=True)
class Pong:
    """The answer to our ping, and how long the model's last step took."""

    at: float
    step_ms: float


@dataclass(frozen=True)
class Unknown:
    """A message of a type that this client does not know."""

    type: str


@dataclass(frozen=True)
class Reconnecting:
    """Ours, not the server's: the connection is gone, and is tried again for so many seconds more."""

    seconds_left: float
    sentence: str


Event: TypeAlias = (
    Hello
    | Waiting
    | Turn
    | Admitted
    | TalkState
    | StartedOver
    | Words
    | Said
    | Guard
    | Echo
    | Recording
    | Notice
    | Refused
    | Lost
    | Xray
    | Ended
    | Health
    | Pong
    | Unknown
    | Reconnecting
)
