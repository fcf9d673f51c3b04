"""A session's two queues are bounded, its counters add up, and it ends once, with the first sentence."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine import CHOICES, drained, frame_of

from personaplex_app.audio import FRAME_SAMPLES, FRAME_SECONDS, silence
from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.scheduler import PATIENCE_SECONDS, plan_tick
from personaplex_app.engine.session import Applied, Session
from personaplex_app.engine.session import SessionState as State
from personaplex_app.engine.slots import Tenancy
from personaplex_app.engine.talk_queues import HEARD_FRAMES, SLOW_MEMORY_SECONDS, SPOKEN_FRAMES

OTHER = SamplingSettings(audio_temperature=0.1)


@dataclass
class Stage:
    """A session with a clock in the hand and a bell that counts."""

    now: float = 100.0
    rings: int = 0
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        self.session = Session(Tenancy(0, 1), CHOICES, None, notify=self._ring, clock=lambda: self.now)

    def _ring(self) -> None:
        self.rings += 1


@pytest.fixture
def stage() -> Stage:
    """A session whose talk runs."""
    stage = Stage()
    stage.session.begin()
    return stage


def _values(session: Session) -> list[float]:
    return [float(session.queues.take_heard()[0]) for _ in range(session.queues.waiting[0])]


def test_nothing_is_kept_before_the_talk() -> None:
    session = Stage().session
    assert not session.hear(frame_of(0.5))
    session.begin()
    assert session.queues.waiting[0] == 0 and session.counters.heard == 0
    assert not session.hear(frame_of(0.25)[:1000]), "and no half frame either"
    assert session.queues.waiting[0] == 0


def test_heard_keeps_three_and_counts_what_it_drops(stage: Stage) -> None:
    session = stage.session
    for value in range(1, 9):
        assert session.hear(frame_of(value))
    assert session.queues.waiting[0] == HEARD_FRAMES == 3
    assert (session.counters.heard, session.counters.heard_dropped) == (8, 5)
    assert _values(session) == [6, 7, 8], "the newest are kept, in order"


def test_spoken_keeps_four_and_counts_what_it_drops(stage: Stage) -> None:
    for value in range(7):
        stage.session.deliver(frame_of(value), 3, b"")
    assert [frame.index for frame in drained(stage.session)] == [3, 4, 5, 6] and SPOKEN_FRAMES == 4
    assert (stage.session.counters.stepped, stage.session.counters.spoken_dropped) == (7, 3)
    assert stage.session.take_spoken() is None


@given(st.lists(st.integers(0, 5000), max_size=30))
def test_pieces_of_any_length_become_whole_frames(lengths: list[int]) -> None:
    stage = Stage()
    session = stage.session
    session.begin()
    heard = np.arange(sum(lengths), dtype=np.float32)
    taken = []
    for start, length in zip(itertools.accumulate([0, *lengths]), lengths, strict=False):
        whole = session.hear(heard[start : start + length])
        assert whole == (session.queues.waiting[0] > 0)
        taken += [session.queues.take_heard() for _ in range(session.queues.waiting[0])]
    kept = sum(lengths) // FRAME_SAMPLES
    assert session.counters.heard == kept and session.counters.heard_dropped == 0
    assert np.array_equal(np.concatenate([silence(0), *taken]), heard[: kept * FRAME_SAMPLES])


def test_begin_after_the_end_does_nothing(stage: Stage) -> None:
    fresh = Stage()
    fresh.session.end("left")
    fresh.session.begin()
    assert fresh.session.state is State.ENDED and not fresh.session.hear(frame_of(1))
    stage.session.end("first")
    stage.session.end("second")
    assert (stage.session.state, stage.session.ended_because) == (State.ENDED, "first")
    assert not stage.session.hear(frame_of(1)) and stage.session.queues.waiting[0] == 0


def test_the_web_is_told_of_every_change() -> None:
    stage = Stage()
    changes = [
        stage.session.begin,
        lambda: stage.session.deliver(frame_of(0), 3, b""),
        lambda: stage.session.note_applied(OTHER),
        lambda: stage.session.end("over"),
    ]
    for rings, change in enumerate(changes, start=1):
        change()
        assert stage.rings == rings
    stage.session.end("again")
    assert stage.rings == len(changes), "and of nothing that did not change"


def test_words_come_with_their_frames(stage: Stage) -> None:
    for piece in (b"", b" Good", b" mor", b"ning", b"", b" \xf0\x9f", b"\x8c\x9e"):
        stage.session.deliver(frame_of(0), len(piece), piece)
    assert stage.session.transcript.text == "Good morning \U0001f31e"
    assert [(word.text, word.start_seconds) for word in stage.session.transcript.words] == [
        ("Good", 0.08),
        ("morning", 0.16),
        ("\U0001f31e", 0.4),
    ]
    assert stage.session.text_tokens == [0, 5, 4, 4, 0, 3, 2]


def test_sampling_is_taken_once_and_named_with_its_frame(stage: Stage) -> None:
    session = stage.session
    assert session.applied == Applied(CHOICES.sampling, 0) and session.take_wanted() is None
    for value in range(5):
        session.deliver(frame_of(value), 3, b"")
    session.want_sampling(SamplingSettings(audio_temperature=0.9))
    session.want_sampling(OTHER)
    assert session.take_wanted() == OTHER and session.take_wanted() is None
    session.note_applied(OTHER)
    assert session.applied == Applied(OTHER, 5), "from the next frame on"


def test_silence_comes_after_patience_and_then_at_the_pace_of_time(stage: Stage) -> None:
    session, ticks = stage.session, []
    for _ in range(200):
        stage.now += 0.01
        if plan_tick(stage.now, float("-inf"), [session.queues.view(0)]).ready:
            ticks.append(stage.now - 100.0)
            assert not session.queues.take_heard().any()
    assert session.counters.silence_filled == len(ticks)
    assert ticks[0] == pytest.approx(PATIENCE_SECONDS, abs=0.011)
    assert len(ticks) == pytest.approx((2.0 - PATIENCE_SECONDS) / FRAME_SECONDS, abs=1.1)


def test_a_frame_restores_patience(stage: Stage) -> None:
    stage.now += 10
    stage.session.hear(frame_of(1))
    stage.session.queues.take_heard()
    assert stage.session.queues.view(0).hungry_since == stage.now and stage.session.counters.silence_filled == 0


def test_slowness_is_remembered_for_a_while(stage: Stage) -> None:
    session = stage.session
    for value in range(3):
        session.hear(frame_of(value))
    assert not session.queues.slow
    session.hear(frame_of(4))
    stage.now += SLOW_MEMORY_SECONDS - 0.01
    assert session.queues.slow
    stage.now += 0.02
    assert not session.queues.slow and session.counters.heard_dropped == 1
