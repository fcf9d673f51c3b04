"""A session that ended may be parked, and another goes on from what it was."""

from __future__ import annotations

from support.engine import CHOICES, Saved, drained, frame_of

from personaplex_app.controls import SamplingSettings
from personaplex_app.engine.session import Applied, Session
from personaplex_app.engine.session import SessionState as State
from personaplex_app.engine.slots import Tenancy

OTHER = SamplingSettings(audio_temperature=0.1)


def _priming() -> Session:
    return Session(Tenancy(0, 1), CHOICES, None)


def _talking() -> Session:
    session = _priming()
    session.begin()
    return session


def test_only_a_talk_with_a_state_is_parked() -> None:
    priming, talking, stopped = _priming(), _priming(), _priming()
    assert not priming.resumable
    for session in (talking, stopped):
        session.begin()
        assert session.resumable
    for session in (priming, talking):
        session.end("lost", park=True)
    stopped.end("stopped")
    assert [each.parks for each in (priming, talking, stopped)] == [False, True, False]
    assert [each.resumable for each in (priming, talking, stopped)] == [False, True, False]


def test_the_first_end_says_whether_a_talk_is_parked() -> None:
    session = _talking()
    session.end("stopped")
    session.end("lost", park=True)
    assert not session.parks and not session.resumable


def test_a_continued_talk_goes_on_from_what_was() -> None:
    first = _talking()
    first.hear(frame_of(1))
    first.deliver(frame_of(0), 4, b" Good")
    first.note_applied(OTHER)
    first.want_sampling(CHOICES.sampling)
    first.end("lost", park=True)
    saved, rings = Saved(), []
    second = Session.continued(first.so_far(), saved, Tenancy(1, 9), lambda: rings.append(1), first.clock)
    assert second.state is State.PRIMING and second.resumed and second.saved is saved and second.resumable
    assert second.grant != first.grant and second.tenancy == Tenancy(1, 9) and second.ended_because == ""
    assert second.applied == Applied(OTHER, 1) and second.counters == first.counters
    second.begin()
    assert rings and second.saved is None and second.queues.waiting[0] == 0
    assert second.take_wanted() == CHOICES.sampling
    second.deliver(frame_of(0), 5, b"night")
    assert second.transcript.text == "Goodnight" and second.text_tokens == [4, 5]
    assert [frame.index for frame in drained(second)] == [1]
    assert first.counters.stepped == 1, "what goes on is counted once"


def test_grants_are_secrets_that_nobody_guesses() -> None:
    sessions = [_priming() for _ in range(100)]
    assert len({session.grant for session in sessions}) == 100
    assert all(len(session.grant) == 32 and session.grant not in repr(session) for session in sessions)
