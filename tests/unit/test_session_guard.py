"""A session's loop guard: the sampling goes the way of the visitor's, all is written down, a parked talk goes on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from support.engine import CHOICES, Saved, frame_of

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.loop_guard import REPEATS, SILENT, SILENT_FRAMES, STEADY_FRAMES, LoopGuard, steadied
from personaplex_app.engine.session import SPEAKS_SECONDS, Session
from personaplex_app.engine.slots import Tenancy
from personaplex_app.web import talk as talk_module

STEADY = steadied(CHOICES.sampling)
OTHER = SamplingSettings(text_temperature=0.9)


@dataclass
class Stage:
    """A session whose talk runs, stepped as the tick thread does it."""

    allowed: bool = True
    now: float = 100.0
    changes: list[tuple[int, SamplingSettings]] = field(default_factory=list)
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        guard = LoopGuard(self.allowed)
        self.session = Session(Tenancy(0, 1), CHOICES, None, clock=lambda: self.now, guard=guard)
        self.session.begin()

    def step(self, piece: bytes = b"") -> None:
        self.now += FRAME_SECONDS
        session = self.session
        if (wanted := session.take_wanted()) is not None:
            self.changes.append((session.counters.stepped, wanted))
            session.note_applied(wanted)
        session.deliver(frame_of(0), 3, piece)

    def loop(self) -> int:
        """Until the alarm; which frame that came after."""
        while not self.session.transcript.remarks:
            self.step(b" no" if self.session.counters.stepped % 3 == 0 else b"")
            assert self.session.counters.stepped < 100
        return self.session.counters.stepped - 1

    def rest(self, frames: int) -> None:
        for _ in range(frames):
            self.step()

    @property
    def done(self) -> list[str]:
        return [remark.action for remark in self.session.transcript.remarks]


def test_three_seconds_of_frames_are_steadied_and_no_more() -> None:
    stage = Stage()
    at = stage.loop()
    stage.rest(100)
    assert stage.changes == [(at + 1, STEADY), (at + 1 + STEADY_FRAMES, CHOICES.sampling)]
    assert stage.done == ["steadied", "put_back"] and stage.session.applied.sampling == CHOICES.sampling
    first, second = stage.session.transcript.remarks
    assert (first.reason, first.phrase, first.at_seconds) == (REPEATS, "no", round(at * FRAME_SECONDS, 3))
    assert second.at_seconds - first.at_seconds == 3.04
    counters = stage.session.counters
    assert (counters.repeats, counters.silent, counters.steadied, counters.put_back) == (1, 0, 1, 1)


def test_the_visitor_s_new_value_holds_and_is_put_back() -> None:
    stage = Stage()
    at = stage.loop()
    stage.rest(10)
    stage.session.want_sampling(OTHER)
    assert stage.session.asked == (OTHER, True)
    stage.rest(60)
    assert [sampling for _, sampling in stage.changes] == [STEADY, replace(STEADY, text_temperature=0.9), OTHER]
    assert stage.changes[-1][0] == at + 1 + STEADY_FRAMES and stage.session.asked == (OTHER, True)


def test_a_value_set_in_the_very_frame_of_the_alarm_is_not_lost() -> None:
    stage = Stage()
    stage.loop()
    stage.session.want_sampling(OTHER)
    stage.rest(60)
    assert stage.changes[0][1] == replace(STEADY, text_temperature=0.9) and stage.changes[-1][1] == OTHER


def test_forbidden_it_only_tells() -> None:
    stage = Stage(allowed=False)
    stage.loop()
    stage.rest(100)
    assert stage.changes == [] and stage.done == ["noticed"] and stage.session.counters.steadied == 0
    assert stage.session.counters.repeats == 1


def test_forbidden_meanwhile_the_next_step_has_the_visitor_s_sampling() -> None:
    stage = Stage()
    at = stage.loop()
    stage.rest(5)
    stage.session.want_guard(False)
    assert stage.session.asked == (CHOICES.sampling, False)
    stage.rest(60)
    assert stage.changes == [(at + 1, STEADY), (at + 6, CHOICES.sampling)] and stage.done == ["steadied", "put_back"]
    stage.session.want_guard(True)
    stage.rest(1)
    assert stage.session.asked == (CHOICES.sampling, True) and len(stage.changes) == 2


def test_a_parked_talk_goes_on_in_the_midst_of_it() -> None:
    for frames_before in (0, 7):  # parked before the change was applied, and after
        stage = Stage()
        at = stage.loop()
        stage.rest(frames_before)
        first = stage.session
        first.want_guard(True)
        first.end("lost", park=True)
        stage.now += 20.0
        stage.session = Session.continued(first.so_far(), Saved(), Tenancy(1, 2), lambda: None, first.clock)
        stage.session.begin()
        assert stage.session.asked == (CHOICES.sampling, True)
        stage.rest(60)
        assert stage.changes == [(at + 1, STEADY), (at + 1 + STEADY_FRAMES, CHOICES.sampling)]
        assert stage.done == ["steadied", "put_back"] and stage.session.counters.put_back == 1


def test_what_was_forbidden_and_lost_stays_forbidden() -> None:
    stage = Stage()
    stage.session.want_guard(False)
    stage.session.end("lost", park=True)
    second = Session.continued(stage.session.so_far(), Saved(), Tenancy(1, 2), lambda: None, lambda: stage.now)
    assert second.asked == (CHOICES.sampling, False)
    second.begin()
    assert second.take_wanted() is None and not second.sampling.guard.allowed


def test_silence_counts_while_the_visitor_was_heard_to_speak_a_moment_ago() -> None:
    stage = Stage()
    stage.rest(2 * SILENT_FRAMES)
    assert stage.done == [], "nobody spoke"
    while not stage.done:
        stage.session.note_speech()
        stage.rest(round(talk_module.LISTEN_AFTER_SECONDS / FRAME_SECONDS))
    assert stage.session.transcript.remarks[0].reason == SILENT and stage.session.counters.silent == 1
    assert SILENT_FRAMES < stage.session.counters.stepped - 2 * SILENT_FRAMES <= SILENT_FRAMES + 25
    assert SPEAKS_SECONDS >= talk_module.LISTEN_AFTER_SECONDS + 0.3, (
        "the detector finds speech in three windows of 32 ms"
    )
