"""Talks that break off and go on: what tests of the parking lot do and look for."""

from __future__ import annotations

import pytest
from support.engine import CHOICES, ProbeStepper, Talker, is_talking, join_talking, pace, until

from personaplex_app.engine.facade import Engine
from personaplex_app.engine.session import Session
from personaplex_app.errors import SessionEnded

LOST = "The connection was lost."


def talked(engine: Engine, frames: int = 5) -> Talker:
    """A talk of some frames."""
    talker = join_talking(engine)
    talk_on(talker, frames)
    return talker


def talk_on(talker: Talker, frames: int = 5) -> None:
    before = talker.session.counters.stepped
    until(lambda: is_talking(talker.session))
    pace(frames, lambda index: talker.say(1), [talker])
    until(lambda: talker.session.counters.stepped >= before + frames)


def say_into_a_step(talker: Talker, stepper: ProbeStepper) -> None:
    """Says a frame and waits until a step with the talk is under way; the gate is closed, so it does not end."""
    talker.say(1)
    until(lambda: stepper.at_gate)


def taken_up(engine: Engine, grant: str) -> Talker:
    talker = Talker(engine, engine.resume(grant))
    until(lambda: is_talking(talker.session))
    return talker


def assert_unknown(engine: Engine, grant: str) -> None:
    assert not engine.can_resume(grant)
    with pytest.raises(SessionEnded, match="cannot be taken up again") as refused:
        engine.resume(grant)
    assert refused.value.code == "grant_unknown"


def assert_one_talk(session: Session) -> None:
    """The echo's count runs on through every break: the state was the talk's own."""
    tokens = session.text_tokens
    assert tokens == list(range(CHOICES.seed, CHOICES.seed + len(tokens)))
    assert session.counters.stepped == len(tokens)
