"""Onlookers see every frame that is taken, as it was heard and spoken; one that fails harms nobody."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from support.engine import CHOICES, Saved, frame_of

from personaplex_app.audio import Pcm
from personaplex_app.engine.session import Session, SessionState
from personaplex_app.engine.slots import Tenancy


class Witness:
    """Writes down what it sees."""

    def __init__(self, fails: bool = False) -> None:
        self.seen: list[tuple[int, float, float]] = []
        self._fails = fails

    def saw(self, index: int, heard: Pcm, spoken: Pcm) -> None:
        self.seen.append((index, float(heard[0]), float(spoken[0])))
        if self._fails:
            raise RuntimeError("blind")


def talking() -> Session:
    session = Session(Tenancy(0, 0), CHOICES, None)
    session.state = SessionState.TALKING
    return session


def step(session: Session, heard: float) -> None:
    session.hear(frame_of(heard))
    session.queues.take_heard()
    session.deliver(frame_of(-heard), 3, b"")


def test_each_frame_is_shown_with_what_was_heard_in_its_step() -> None:
    session, witness = talking(), Witness()
    session.onlookers.add(witness)
    for heard in (0.25, 0.5):
        step(session, heard)
    assert witness.seen == []  # nobody took them yet
    while session.take_spoken():
        pass
    assert witness.seen == [(0, 0.25, -0.25), (1, 0.5, -0.5)]
    session.onlookers.remove(witness)
    step(session, 0.75)
    assert session.take_spoken() is not None and len(witness.seen) == 2


def test_one_that_fails_looks_on_no_more_and_the_talk_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    session, blind, witness = talking(), Witness(fails=True), Witness()
    session.onlookers.add(blind)
    session.onlookers.add(witness)
    with caplog.at_level(logging.CRITICAL):
        for heard in (0.25, 0.5):
            step(session, heard)
            frame = session.take_spoken()
            assert frame is not None and np.array_equal(frame.heard, frame_of(heard))
    assert len(blind.seen) == 1 and len(witness.seen) == 2


def test_a_resumed_talk_keeps_its_onlookers_and_a_frame_of_the_connection_before_is_too_late() -> None:
    before, witness = talking(), Witness()
    before.onlookers.add(witness)
    step(before, 0.25)
    before.end("Lost.", park=True)
    after = Session.continued(before.so_far(), Saved(), Tenancy(0, 1), lambda: None, before.clock)
    after.state = SessionState.TALKING
    assert after.onlookers is before.onlookers
    step(after, 0.5)
    assert after.take_spoken() and before.take_spoken()
    assert witness.seen == [(1, 0.5, -0.5)]
