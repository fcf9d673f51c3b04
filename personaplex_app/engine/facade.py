"""The engine as the web sees it: join, hear, take, leave, and come back.

In: choices, grants and sound from the web's threads. Out: sessions. Must not know: the web, torch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import TypeVar

from personaplex_app.audio import Pcm, silence
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.engine.comeback import Comeback
from personaplex_app.engine.loan import Loan
from personaplex_app.engine.loop_events import LoopEvents, TickReport
from personaplex_app.engine.loop_guard import LoopGuard
from personaplex_app.engine.parking import GRANT_SECONDS, PARKING_BYTES, ParkedStatus, ParkingLot
from personaplex_app.engine.past import Past
from personaplex_app.engine.porter import Porter
from personaplex_app.engine.ports import LearnedVoice, Stepper
from personaplex_app.engine.readying import Readying
from personaplex_app.engine.roster import Roster
from personaplex_app.engine.session import Session
from personaplex_app.engine.slots import SlotTable, Tenancy
from personaplex_app.engine.tick_loop import TickLoop
from personaplex_app.errors import InvalidInput, NoCapacity
from personaplex_app.voices import NO_VOICE

YOU_STOPPED = "You ended the talk."
LEARN_SECONDS = 60.0
BUSY = "The server is too busy to listen to a voice now. Try again in a minute."

Result = TypeVar("Result")


@dataclass(frozen=True)
class EngineStatus:
    """Slots and speed at a glance.

    Attributes:
        failed: a sentence once the engine is dead. talking: live talks. stalled: while a step or a prompt is late.
        prompts_ready: of the prompts that are to be ready, how many are.
    """

    slots: int
    free: int
    step_ms: float
    failed: str
    talking: int = 0
    stalled: bool = False
    prompts_ready: int = 0


class Engine:
    """One stepper, its slots, its threads and its parking lot; use as a context manager, or `start` and `stop`.

    Args:
        on_fatal: called once, from a thread, when the engine is dead; the process should end soon after.
        parking_bytes: of all parked states together. grant_seconds: how long a parked talk waits for its visitor.
        on_tick: called on the tick thread after every tick; must not block.
    """

    def __init__(
        self,
        stepper: Stepper,
        on_fatal: Callable[[str], None] = lambda sentence: None,
        clock: Callable[[], float] = time.monotonic,
        parking_bytes: int = PARKING_BYTES,
        grant_seconds: float = GRANT_SECONDS,
        on_tick: Callable[[TickReport], None] = lambda report: None,
    ) -> None:
        self.stepper = stepper
        self._clock = clock
        self._table = SlotTable(stepper.slots)
        self._lot = ParkingLot(parking_bytes, grant_seconds, clock)
        self._porter = Porter(self._lot)
        self._roster = Roster(self._table, self._lot)
        self._comeback = Comeback(self._roster, clock)
        self._loop = TickLoop(stepper, self._roster, LoopEvents(on_fatal, on_tick, self._porter.carry), clock)

    def start(self) -> None:
        """Starts the threads."""
        self._porter.start()
        self._loop.start()
        self.readying.start(lambda pieces: self.errand(pieces, background=True))

    def stop(self) -> None:
        """Ends every talk and the threads, and lets go of what is parked."""
        self.readying.stop()
        self._loop.stop()
        self._porter.stop()
        self._lot.clear()

    def __enter__(self) -> Engine:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def status(self) -> EngineStatus:
        """What the page shows of the engine."""
        loop, roster = self._loop, self._roster
        step_ms, ready = self.step_ms, self.readying.ready
        return EngineStatus(self._table.total, roster.free, step_ms, loop.failed, roster.talking, loop.stalled, ready)

    @property
    def step_ms(self) -> float:
        """How long a step takes of late; `status` alone looks through all who are here."""
        return 1000 * self._loop.step_seconds

    @property
    def readying(self) -> Readying:
        """What is to be ready before anybody asks for it, and how soon a talk with it begins."""
        return self._loop.readying

    @property
    def parked(self) -> ParkedStatus:
        """How full the parking lot is."""
        return self._lot.status

    def measure(self, steps: int = 3) -> float:
        """Primes every slot, steps them all through silence, wipes them; before `start` only, while nobody owns them.

        Returns the median step of a full house in milliseconds, which `status` shows until the first talk; the first
        step, which may compile or record something, does not count. The past is as long as the shortest prompt's.
        The first prompt that is to be ready is read once, which tells how long others will take.
        Raises what the stepper raises, RuntimeError once the threads run.
        """
        if self._loop.started:
            raise RuntimeError("the stepper belongs to the tick thread now")
        slots = range(self.stepper.slots)
        opening = self.stepper.open(Choices("", NO_VOICE, SamplingSettings(), 0))
        for slot in slots:
            self.stepper.prime(slot, opening)
        took = [self._timed_step() for _ in range(1 + steps)][1:]
        for slot in slots:
            self.stepper.release(slot)
        self._loop.step_seconds = median(took)
        self._measure_reading()
        return 1000 * self._loop.step_seconds

    def _measure_reading(self) -> None:
        for _, choices in self.readying.wanted:
            with contextlib.suppress(InvalidInput):  # told when it is its turn to be made ready
                opening = self.stepper.open(choices)
                for _ in self.readying.timed(opening, self.stepper.prime_pieces(0, opening)):
                    pass
                self.stepper.release(0)
                return

    def _timed_step(self) -> float:
        heard = {slot: silence() for slot in range(self.stepper.slots)}
        began = self._clock()
        self.stepper.step(heard)
        return self._clock() - began

    def check_capacity(self) -> None:
        """Raises NoCapacity or ServerFault where a visitor who came now could not be let in."""
        self._roster.check_capacity()

    def join(
        self, choices: Choices, notify: Callable[[], None] = lambda: None, voice: LearnedVoice | None = None
    ) -> Session:
        """Claims a slot and queues the conversation for priming; blocking parts run here, so call it in a thread.

        Args:
            voice: what `learn_voice` gave, in place of the voice that the choices name.

        Raises NoCapacity at once when all slots are taken, InvalidInput for choices that cannot be used.
        """
        self.check_capacity()
        make = self._opened(choices, notify, voice)
        return self._roster.seat(lambda table: make(table.claim()))

    def start_over(
        self,
        session: Session,
        choices: Choices,
        notify: Callable[[], None] = lambda: None,
        voice: LearnedVoice | None = None,
    ) -> Session:
        """Begins a session anew in its own slot, which nobody can get meanwhile; blocks as `join` does.

        The session that comes back has nothing of the one before, whose grant is dead, but the length of the call.
        Raises InvalidInput for choices that cannot be used, and the session goes on as it was; SessionEnded where it
        is over, ServerFault.
        """
        make = self._opened(choices, notify, voice)

        def fresh(tenancy: Tenancy) -> Session:
            made = make(tenancy)
            made.before_seconds = session.lasted_seconds
            return made

        return self._roster.start_over(session, fresh)

    def _opened(
        self, choices: Choices, notify: Callable[[], None], voice: LearnedVoice | None
    ) -> Callable[[Tenancy], Session]:
        """What makes the session once it has a slot; all that can be refused is refused here."""
        opening = self.stepper.open(choices, voice)
        guard = LoopGuard(choices.loop_guard, self.stepper.has_words)
        past = Past(self.stepper.window, getattr(opening, "positions", 0))
        return lambda tenancy: Session(tenancy, choices, opening, notify, self._clock, guard=guard, past=past)

    def learn_voice(self, pcm: Pcm, timeout_seconds: float = LEARN_SECONDS) -> LearnedVoice:
        """A voice from sound, to be handed to `join`; talks go first. Blocks, so call it in a thread.

        Args:
            pcm: float32 [n], mono, 24 kHz.

        Raises InvalidInput for sound that makes no voice, NoCapacity where there is no time for it, ServerFault.
        """
        learned = self.errand(self.stepper.voice_pieces(pcm))
        try:
            return learned.result(timeout_seconds)
        except TimeoutError:
            learned.cancel()
            raise NoCapacity(BUSY) from None

    def errand(self, pieces: Generator[None, None, Result], background: bool = False) -> Future[Result]:
        """Work for the tick thread, done piece by piece between ticks and after newcomers' prompts; never blocks.

        Args:
            pieces: every `next` is one piece, of some milliseconds where others talk. background: done when nothing
                else is, and never at a talk's cost.

        Raises ServerFault once the engine has stopped; what the work raises is the future's. Cancel what is not wanted.
        """
        future = self._loop.errands.put(pieces, background)
        self._roster.nudge()
        return future

    def lend(self) -> Loan:
        """A free slot until a visitor wants it; only errands may call this. Raises NoCapacity where none is free."""
        return self._loop.lend()

    def resume(self, grant: str, notify: Callable[[], None] = lambda: None) -> Session:
        """Takes a talk up again in any free slot; blocks while its state is brought back, so call it in a thread.

        The session is a new one with a new grant; the old grant is spent. A talk that is still live is taken over.
        Raises SessionEnded(code="grant_unknown") where the grant is worth nothing (any more), NoCapacity where no slot
        is free, in which case the grant stays as it is, ServerFault.
        """
        return self._comeback.resume(grant, notify)

    def can_resume(self, grant: str) -> bool:
        """Whether `resume` would find a talk under this grant, live or parked."""
        return self._roster.can_resume(grant)

    def keep(self, grant: str) -> bool:
        """Gives a parked talk its whole time again, for an owner who waits in line; False where there is none."""
        return self._lot.keep(grant)

    def forget(self, grant: str) -> None:
        """A parked talk is wanted no more."""
        self._roster.forget(grant)

    def hear(self, session: Session, pcm: Pcm) -> None:
        """Sound from a session's microphone, float32 [n] at 24 kHz; never blocks."""
        if session.hear(pcm):
            self._roster.nudge()

    def leave(self, session: Session, because: str = YOU_STOPPED, park: bool = False) -> None:
        """Ends a session; its slot is free again after the step that may be running.

        Args:
            park: keep the state of a talk under `session.grant`. Without it nothing is kept, not even what was parked
                when the session ended earlier.
        """
        session.end(because, park)
        if not park:
            self._roster.forget(session.grant)
        self._roster.nudge()
