"""A stall of two seconds leaves no delay behind: what is said is heard as soon as before, and all is counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np
import pytest
from support.call import PACKET_SAMPLES, PACKET_SECONDS, Call, play_out, talking
from support.engine import ProbeStepper

from personaplex_app.audio import Pcm
from personaplex_app.engine.facade import Engine
from personaplex_app.metrics import Metrics
from personaplex_app.web.desk import FrontDesk

pytestmark = pytest.mark.timed

STALL_SECONDS = 2.0
BACK_SECONDS = 1.0
MOST_MS = 160
MATCH_PACKETS = 3


@pytest.fixture
def stepper() -> ProbeStepper:
    return ProbeStepper(slots=1)


class Voice:
    """A microphone that never says the same twice, and when it said what."""

    def __init__(self, loud: Callable[[int], bool]) -> None:
        self._random = np.random.default_rng(6)
        self._loud = loud
        self.said: list[Pcm] = []
        self.said_at: list[float] = []

    def __call__(self, number: int) -> Pcm:
        self.said_at.append(time.monotonic())
        loudness = 0.1 if self._loud(number) else 0.001
        self.said.append((loudness * self._random.standard_normal(PACKET_SAMPLES)).astype(np.float32))
        return self.said[-1]

    def delay_ms(self, heard: Pcm, heard_at: float) -> float:
        """How long before `heard_at` the first sample of what is heard, float32 [n], was said."""
        all_said = np.concatenate(self.said)
        size = 1 << (len(all_said) + len(heard)).bit_length()
        match = np.fft.irfft(np.fft.rfft(all_said, size) * np.conj(np.fft.rfft(heard, size)), size)
        packet, sample = divmod(int(np.argmax(match[: len(all_said)])), PACKET_SAMPLES)
        return 1000 * (heard_at - self.said_at[packet]) - 1000 * sample / (50 * PACKET_SAMPLES)


class Ear(list[Pcm]):
    """Packets as they are played, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[float] = []

    def append(self, packet: Pcm) -> None:
        super().append(packet)
        self.at.append(time.monotonic())


class PacedCall(Call):
    """A call whose packets leave as FastRTC sends them: each at its own time, and at once where that has passed.

    Attributes:
        late_ms: how far the last packet was behind its time.
    """

    late_ms = 0.0

    async def _play(self) -> None:
        began, number = time.monotonic(), 0
        while True:
            packet = await self.track.queue.get()
            due = began + PACKET_SECONDS * number
            await asyncio.sleep(due - time.monotonic())
            self.late_ms = 1000 * (time.monotonic() - due)
            self.played.append(packet)
            number += 1


def _delays_ms(voice: Voice, ear: Ear, since: float, until: float) -> list[float]:
    """From mouth to ear, wherever something loud was played between two times."""
    found = []
    for first in range(0, len(ear) - MATCH_PACKETS, MATCH_PACKETS):
        heard = np.concatenate(ear[first : first + MATCH_PACKETS])
        if since <= ear.at[first] < until and np.abs(heard).std() > 0.02:
            found.append(voice.delay_ms(heard, ear.at[first]))
    return found


@pytest.mark.parametrize(
    "loud", [lambda number: True, lambda number: number % 60 < 45], ids=["without a pause", "with pauses"]
)
def test_a_second_after_a_stall_of_two_what_is_said_is_heard_as_soon_as_before(
    engine: Engine, stepper: ProbeStepper, loud: Callable[[int], bool]
) -> None:
    voice, ear = Voice(loud), Ear()
    marks: dict[str, float] = {}

    async def story() -> None:
        desk = FrontDesk(engine, Metrics())
        call = PacedCall(desk)
        call.played = ear
        await talking(call, voice)
        marks["talks"] = time.monotonic()
        await asyncio.sleep(2.0)
        marks["stalls"] = time.monotonic()
        with stepper.stopped():
            await asyncio.sleep(STALL_SECONDS)
        marks["goes on"] = time.monotonic()
        await asyncio.sleep(BACK_SECONDS + 1.5)
        marks["ends"] = time.monotonic()
        _assert_counted(call)
        await call.stop()
        await desk.close()

    play_out(story)
    before = _delays_ms(voice, ear, marks["talks"] + 0.5, marks["stalls"])
    after = _delays_ms(voice, ear, marks["goes on"] + BACK_SECONDS, marks["ends"])
    assert len(before) > 10 and len(after) > 10
    assert np.median(after) <= np.median(before) + 60 and max(after) <= min(before) + MOST_MS


def _assert_counted(call: PacedCall) -> None:
    """Two seconds of sound were lost, two seconds of gap filled, as one tear, and the sender is in time."""
    pacing, counters = call.handler.pacer.counters, call.session.counters
    assert pacing.filled_packets >= 0.8 * STALL_SECONDS * 50 and 1 <= pacing.torn <= 3
    assert call.late_ms < 50
    assert counters.heard_dropped >= 0.7 * STALL_SECONDS * 12.5
    assert call.longest_ms <= MOST_MS + 80 and 20 <= pacing.prebuffer_ms <= 120
