"""One conversation: its choices, what it has come to and how it ended.

In: sound and wishes from the web's thread, each step's result from the tick thread. Out: frames for either, sampling
that is to hold, what another session can go on from. Exactly these two threads touch a session, and its sound only in
its `TalkQueues`. Must not know: the web, torch, other sessions, which frames wait and which are dropped.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, replace
from enum import Enum

from personaplex_app.audio import FRAME_SECONDS, Pcm
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.loop_guard import GuardAction, LoopGuard
from personaplex_app.engine.onlookers import Onlookers
from personaplex_app.engine.past import Past
from personaplex_app.engine.ports import SavedSlot
from personaplex_app.engine.slots import Tenancy
from personaplex_app.engine.talk_queues import SpokenFrame, TalkQueues
from personaplex_app.engine.talk_sampling import Applied, TalkSampling
from personaplex_app.engine.talk_so_far import Counters, TalkSoFar
from personaplex_app.records.transcript import Transcript

GRANT_BYTES = 24
SPEAKS_SECONDS = 2.5  # whoever was heard to speak so lately speaks still: the web's detector rests between


class SessionState(Enum):
    """Priming, talking, ended; there is no way back."""

    PRIMING = "priming"
    TALKING = "talking"
    ENDED = "ended"


@dataclass
class Session:
    """A conversation in a slot.

    Attributes:
        notify: called from the tick thread after anything changed that the web should look at.
        opening: what the stepper prepared; belongs to the tick thread.
        grant: the secret under which this talk can be resumed while it is live or parked.
        resumed: whether it goes on from an earlier session; `saved` is the state it starts from, until it talks.
        parks: whether its state is to be kept, now that it has ended.
        queues: sound on its way; `hear` and `take_spoken` are the web's way in.
        sampling: what the visitor has chosen, what holds, and the guard.
        past: how much of the window is used.
        onlookers: shown each frame that is taken; belong to the web's thread.
        prime_seconds: from the slot to the first frame, once it talks.
        before_seconds: of the same call, in talks that the visitor started over.
    """

    tenancy: Tenancy
    choices: Choices
    opening: object
    notify: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    state: SessionState = SessionState.PRIMING
    ended_because: str = ""
    stalled: bool = False
    counters: Counters = field(default_factory=Counters)
    transcript: Transcript = field(default_factory=Transcript)
    text_tokens: list[int] = field(default_factory=list)
    grant: str = field(default_factory=lambda: secrets.token_urlsafe(GRANT_BYTES), repr=False)
    resumed: bool = False
    saved: SavedSlot | None = field(default=None, repr=False)
    parks: bool = False
    prime_seconds: float = 0.0
    before_seconds: float = 0.0
    guard: InitVar[LoopGuard | None] = None
    sampling: TalkSampling = field(init=False)
    queues: TalkQueues = field(init=False, repr=False)
    onlookers: Onlookers = field(default_factory=Onlookers)
    past: Past = field(default_factory=Past)

    def __post_init__(self, guard: LoopGuard | None) -> None:
        self.sampling = TalkSampling(self.choices.sampling, guard or LoopGuard())
        self.queues = TalkQueues(self.counters, self.clock)
        self._lock = threading.Lock()
        self._user_spoke_at = float("-inf")
        self._since = self.last_heard_at = self.clock()

    @classmethod
    def continued(
        cls,
        so_far: TalkSoFar,
        saved: SavedSlot,
        tenancy: Tenancy,
        notify: Callable[[], None],
        clock: Callable[[], float],
    ) -> Session:
        """A session of its own, with a new grant, that goes on where an earlier one was parked."""
        counters = replace(so_far.counters)
        session = cls(tenancy, so_far.choices, None, notify, clock, counters=counters, resumed=True, saved=saved)
        session.sampling, session.onlookers = so_far.sampling.copy(), so_far.onlookers
        session.transcript, session.text_tokens = so_far.transcript, so_far.text_tokens
        session.before_seconds, session.past = so_far.before_seconds, so_far.past
        return session

    # The web's thread.

    def hear(self, pcm: Pcm) -> bool:
        """Takes float32 [n] from the microphone; True when a frame became whole. Nothing is kept before the talk."""
        self.last_heard_at = self.clock()
        if self.state is not SessionState.TALKING:
            return False
        return self.queues.hear(pcm)

    def take_spoken(self) -> SpokenFrame | None:
        """The oldest spoken frame that waits, or None; the onlookers see it first."""
        frame = self.queues.take_spoken()
        if frame is not None:
            self.onlookers.saw(frame.index, frame.heard, frame.pcm)
        return frame

    def want_sampling(self, sampling: SamplingSettings) -> None:
        """Asks for new sampling; the tick thread applies it before the next step and says from which frame."""
        self.sampling.want(sampling)

    def want_guard(self, allowed: bool) -> None:
        """Allows the loop guard to change the sampling, or forbids it, from the next step on."""
        self.sampling.want_guard(allowed)

    def note_speech(self) -> None:
        """The visitor speaks just now."""
        self._user_spoke_at = self.clock()

    @property
    def asked(self) -> tuple[SamplingSettings, bool]:
        """What the visitor asked for last, applied or not yet: sampling, and whether the guard may change it."""
        return self.sampling.asked

    @property
    def applied(self) -> Applied:
        """Sampling that holds, and since when."""
        return self.sampling.applied

    # The tick thread.

    def begin(self) -> None:
        """Priming is done: the talk runs, unless its visitor has left meanwhile."""
        with self._lock:
            if self.state is not SessionState.PRIMING:
                return
            self.last_heard_at = now = self.clock()
            self.prime_seconds = now - self._since
            self.queues.begin(now)
            self.saved = None  # the slot holds it now
            self.state = SessionState.TALKING
            self.stalled = False
        self.notify()

    def take_wanted(self) -> SamplingSettings | None:
        """Sampling that is to hold from the next step on, where something was asked for or the guard acted."""
        self._note(self.sampling.take_guard(self.counters.stepped))
        return self.sampling.take()

    def note_applied(self, sampling: SamplingSettings) -> None:
        """The stepper holds this sampling from the next frame on."""
        self.sampling.applied = Applied(sampling, self.counters.stepped)
        self.notify()

    def deliver(self, pcm: Pcm, text_token: int, piece: bytes) -> None:
        """One step's result; the oldest spoken frame is dropped and counted where nobody takes them."""
        frame = self.counters.stepped
        self.text_tokens.append(text_token)
        self.transcript.add(piece, frame)
        self._note(self.sampling.saw(piece, frame, self._user_speaks))
        self.queues.deliver(pcm)
        self.notify()

    @property
    def _user_speaks(self) -> bool:
        return self.clock() - self._user_spoke_at < SPEAKS_SECONDS

    def _note(self, done: GuardAction | None) -> None:
        """Writes down and counts what the guard did."""
        if done is not None:
            self.transcript.note(done.action, done.reason, done.phrase, done.sentence, done.frame)
            self.counters.note(done)

    def end(self, because: str, park: bool = False) -> bool:
        """Over, with a sentence; the first one stands, and False is said to any other.

        Args:
            park: keep the state, if there is any, so that the talk can be resumed.
        """
        with self._lock:
            if self.state is SessionState.ENDED:
                return False
            self.parks = park and self._has_state
            self.ended_because = because
            self.state = SessionState.ENDED
        self.notify()
        return True

    @property
    def lasted_seconds(self) -> float:
        """How long the call has lasted: this talk, and those before it that were started over."""
        return self.before_seconds + self.counters.stepped * FRAME_SECONDS

    @property
    def _has_state(self) -> bool:
        return self.state is SessionState.TALKING or self.saved is not None

    @property
    def resumable(self) -> bool:
        """Whether its grant is worth something as long as it sits in its slot."""
        with self._lock:
            return self.parks if self.state is SessionState.ENDED else self._has_state

    def so_far(self) -> TalkSoFar:
        """What another session can go on from."""
        counters, sampling = self.queues.counted(), self.sampling.copy()
        return TalkSoFar(
            self.choices,
            sampling,
            counters,
            self.transcript,
            self.text_tokens,
            self.onlookers,
            self.before_seconds,
            self.past,
        )
