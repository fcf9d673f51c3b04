"""One conversation: its choices, its two bounded queues, its counters and how it ended.

Exactly two threads touch a session, and only in those queues: the web's thread hears and takes, the tick thread
takes frames and delivers. Must not know: the web, torch, other sessions.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, replace
from enum import Enum

from personaplex_app.audio import FRAME_MS, FRAME_SECONDS, FrameAssembler, Pcm, silence
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.loop_guard import PUT_BACK, REPEATS, SILENT, STEADIED, GuardAction, LoopGuard
from personaplex_app.engine.onlookers import Onlookers
from personaplex_app.engine.past import Past
from personaplex_app.engine.ports import SavedSlot
from personaplex_app.engine.scheduler import PATIENCE_SECONDS, SlotView
from personaplex_app.engine.slots import Tenancy
from personaplex_app.engine.talk_sampling import Applied, TalkSampling
from personaplex_app.engine.talk_so_far import Counters, TalkSoFar
from personaplex_app.records.transcript import Transcript

GRANT_BYTES = 24
HEARD_FRAMES = 3
SPOKEN_FRAMES = 4
SLOW_MEMORY_SECONDS = 2.0
SPEAKS_SECONDS = 2.5  # whoever was heard to speak so lately speaks still: the web's detector rests between


class SessionState(Enum):
    """Priming, talking, ended; there is no way back."""

    PRIMING = "priming"
    TALKING = "talking"
    ENDED = "ended"


@dataclass(frozen=True)
class SpokenFrame:
    """float32 [1920] of one step, and the frame that was heard in it; `index` counts the talk's frames from 0."""

    pcm: Pcm
    index: int
    heard: Pcm


@dataclass
class Session:
    """A conversation in a slot.

    Attributes:
        notify: called from the tick thread after anything changed that the web should look at.
        opening: what the stepper prepared; belongs to the tick thread.
        grant: the secret under which this talk can be resumed while it is live or parked.
        resumed: whether it goes on from an earlier session; `saved` is the state it starts from, until it talks.
        parks: whether its state is to be kept, now that it has ended.
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
    onlookers: Onlookers = field(default_factory=Onlookers)
    past: Past = field(default_factory=Past)

    def __post_init__(self, guard: LoopGuard | None) -> None:
        self.sampling = TalkSampling(self.choices.sampling, guard or LoopGuard())
        self._assembler = FrameAssembler()
        self._lock = threading.Lock()
        self._heard: deque[Pcm] = deque()
        self._spoken: deque[SpokenFrame] = deque()
        self._in_step = silence()
        self._user_spoke_at = float("-inf")
        self._hungry_since = self.clock()
        self._slow_at = float("-inf")
        self.last_heard_at = self.clock()

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
        session = cls(tenancy, so_far.choices, None, notify, clock, resumed=True, saved=saved)
        session.sampling, session.counters = so_far.sampling.copy(), replace(so_far.counters)
        session.onlookers = so_far.onlookers
        session.transcript, session.text_tokens = so_far.transcript, so_far.text_tokens
        session.before_seconds, session.past = so_far.before_seconds, so_far.past
        return session

    # The web's thread.

    def hear(self, pcm: Pcm) -> bool:
        """Takes float32 [n] from the microphone; True when a frame became whole. Nothing is kept before the talk."""
        self.last_heard_at = self.clock()
        if self.state is not SessionState.TALKING:
            return False
        frames = self._assembler.push(pcm)
        with self._lock:
            for frame in frames:
                self.counters.heard += 1
                self._heard.append(frame)
                if len(self._heard) > HEARD_FRAMES:
                    self._heard.popleft()
                    self.counters.heard_dropped += 1
                    self._slow_at = self.clock()
        return bool(frames)

    def take_spoken(self) -> SpokenFrame | None:
        """The oldest spoken frame that waits, or None; the onlookers see it first."""
        with self._lock:
            frame = self._spoken.popleft() if self._spoken else None
        if frame is not None:
            self.onlookers.saw(frame.index, frame.heard, frame.pcm)
        return frame

    def note_unsent(self) -> None:
        """A spoken frame was taken and could not be sent."""
        with self._lock:
            self.counters.spoken_dropped += 1

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

    @property
    def waiting(self) -> tuple[int, int]:
        """How many heard frames wait for the model, and how many spoken ones for whoever takes them."""
        with self._lock:
            return len(self._heard), len(self._spoken)

    @property
    def slow(self) -> bool:
        """Whether frames were dropped lately because the engine takes longer than they last."""
        return self.clock() - self._slow_at < SLOW_MEMORY_SECONDS

    # The tick thread.

    def view(self) -> SlotView:
        """What the scheduler needs to know."""
        with self._lock:
            return SlotView(self.tenancy.slot, len(self._heard), self._hungry_since)

    def begin(self) -> None:
        """Priming is done: the talk runs, unless its visitor has left meanwhile."""
        with self._lock:
            if self.state is not SessionState.PRIMING:
                return
            now = self.clock()
            self.prime_seconds = now - self._hungry_since
            self._hungry_since = self.last_heard_at = now
            self.saved = None  # the slot holds it now
            self.state = SessionState.TALKING
            self.stalled = False
        self.notify()

    def take_heard(self) -> Pcm:
        """The oldest heard frame; silence where none has come for too long."""
        self._in_step = self._next_heard()
        return self._in_step

    def _next_heard(self) -> Pcm:
        with self._lock:
            frame = self._heard.popleft() if self._heard else None
        if frame is None:
            self.counters.silence_filled += 1
            # Time lost to a stall is not made up for: the next silence is due a frame from now at the earliest.
            latest = self.clock() - PATIENCE_SECONDS
            self._hungry_since = max(self._hungry_since, latest) + FRAME_MS / 1000
            return silence()
        self._hungry_since = self.clock()
        return frame

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
        frame = SpokenFrame(pcm, self.counters.stepped, self._in_step)
        self.text_tokens.append(text_token)
        self.transcript.add(piece, frame.index)
        self._note(self.sampling.saw(piece, frame.index, self._user_speaks))
        with self._lock:
            self.counters.stepped += 1
            self._spoken.append(frame)
            if len(self._spoken) > SPOKEN_FRAMES:
                self._spoken.popleft()
                self.counters.spoken_dropped += 1
        self.notify()

    @property
    def _user_speaks(self) -> bool:
        return self.clock() - self._user_spoke_at < SPEAKS_SECONDS

    def _note(self, done: GuardAction | None) -> None:
        """Writes down and counts what the guard did."""
        if done is None:
            return
        counters = self.counters
        self.transcript.note(done.action, done.reason, done.phrase, done.sentence, done.frame)
        if done.action == PUT_BACK:
            counters.put_back += 1
        else:
            counters.repeats += done.reason == REPEATS
            counters.silent += done.reason == SILENT
            counters.steadied += done.action == STEADIED

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
        with self._lock:
            counters = replace(self.counters)
        return TalkSoFar(
            self.choices,
            self.sampling.copy(),
            counters,
            self.transcript,
            self.text_tokens,
            self.onlookers,
            self.before_seconds,
            self.past,
        )
