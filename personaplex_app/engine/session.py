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
from dataclasses import dataclass, field, replace
from enum import Enum

from personaplex_app.audio import FRAME_MS, FrameAssembler, Pcm, silence
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.ports import SavedSlot
from personaplex_app.engine.scheduler import PATIENCE_SECONDS, SlotView
from personaplex_app.engine.slots import Tenancy
from personaplex_app.engine.talk_so_far import Applied, Counters, TalkSoFar
from personaplex_app.records.transcript import Transcript

GRANT_BYTES = 24
HEARD_FRAMES = 3
SPOKEN_FRAMES = 4
SLOW_MEMORY_SECONDS = 2.0


class SessionState(Enum):
    """Priming, talking, ended; there is no way back."""

    PRIMING = "priming"
    TALKING = "talking"
    ENDED = "ended"


@dataclass(frozen=True)
class SpokenFrame:
    """float32 [1920] of one step; `index` counts the talk's frames from 0."""

    pcm: Pcm
    index: int


@dataclass
class Session:
    """A conversation in a slot.

    Attributes:
        notify: called from the tick thread after anything changed that the web should look at.
        opening: what the stepper prepared; belongs to the tick thread.
        grant: the secret under which this talk can be resumed while it is live or parked.
        resumed: whether it goes on from an earlier session; `saved` is the state it starts from, until it talks.
        parks: whether its state is to be kept, now that it has ended.
        prime_seconds: from the slot to the first frame, once it talks.
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
    applied: Applied = field(init=False)
    grant: str = field(default_factory=lambda: secrets.token_urlsafe(GRANT_BYTES), repr=False)
    resumed: bool = False
    saved: SavedSlot | None = field(default=None, repr=False)
    parks: bool = False
    prime_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.applied = Applied(self.choices.sampling, 0)
        self._assembler = FrameAssembler()
        self._lock = threading.Lock()
        self._heard: deque[Pcm] = deque()
        self._spoken: deque[SpokenFrame] = deque()
        self._wanted: SamplingSettings | None = None
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
        session.applied, session.counters = so_far.applied, replace(so_far.counters)
        session.transcript, session.text_tokens = so_far.transcript, so_far.text_tokens
        session._wanted = so_far.wanted
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
        """The oldest spoken frame that waits, or None."""
        with self._lock:
            return self._spoken.popleft() if self._spoken else None

    def note_unsent(self) -> None:
        """A spoken frame was taken and could not be sent."""
        with self._lock:
            self.counters.spoken_dropped += 1

    def want_sampling(self, sampling: SamplingSettings) -> None:
        """Asks for new sampling; the tick thread applies it before the next step and says from which frame."""
        with self._lock:
            self._wanted = sampling

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
        """Sampling asked for since the last step."""
        with self._lock:
            wanted, self._wanted = self._wanted, None
        return wanted

    def note_applied(self, sampling: SamplingSettings) -> None:
        """The stepper holds this sampling from the next frame on."""
        self.applied = Applied(sampling, self.counters.stepped)
        self.notify()

    def deliver(self, pcm: Pcm, text_token: int, piece: bytes) -> None:
        """One step's result; the oldest spoken frame is dropped and counted where nobody takes them."""
        frame = SpokenFrame(pcm, self.counters.stepped)
        self.text_tokens.append(text_token)
        self.transcript.add(piece, frame.index)
        with self._lock:
            self.counters.stepped += 1
            self._spoken.append(frame)
            if len(self._spoken) > SPOKEN_FRAMES:
                self._spoken.popleft()
                self.counters.spoken_dropped += 1
        self.notify()

    def end(self, because: str, park: bool = False) -> None:
        """Over, with a sentence; the first one stands.

        Args:
            park: keep the state, if there is any, so that the talk can be resumed.
        """
        with self._lock:
            if self.state is SessionState.ENDED:
                return
            self.parks = park and self._has_state
            self.ended_because = because
            self.state = SessionState.ENDED
        self.notify()

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
            counters, wanted = replace(self.counters), self._wanted
        return TalkSoFar(self.choices, self.applied, counters, self.transcript, self.text_tokens, wanted)
