"""How much of the window a talk has used: one that slides, one that is read anew, none."""

from __future__ import annotations

import time

from support.engine import CHOICES, Saved

from personaplex_app.engine.past import Past
from personaplex_app.engine.session import Session
from personaplex_app.engine.slots import Tenancy
from personaplex_app.window import Window


def test_a_sliding_window_forgets_the_prompt_first() -> None:
    past = Past(Window(3000), prompt=100)
    assert (past.used, past.overflows, past.forgot_prompt) == (100, False, False)
    for position, overflows, forgot in (
        (3000, False, False),
        (3001, True, False),
        (3099, True, False),
        (3100, True, True),
    ):
        past.stands_at(position)
        assert (past.overflows, past.forgot_prompt) == (overflows, forgot), position
    assert past.renewals == 0


def test_a_window_that_is_read_anew_never_overflows() -> None:
    past = Past(Window(512, kept_frames=90), prompt=60)
    for position in (400, 480, 150, 400, 151):
        past.stands_at(position)
    assert past.renewals == 2 and past.used == 151
    assert not past.overflows and not past.forgot_prompt


def test_without_a_window_nothing_is_forgotten() -> None:
    past = Past()
    past.stands_at(10_000)
    assert not past.overflows and not past.forgot_prompt


def test_it_goes_on_where_a_talk_is_resumed() -> None:
    session = Session(Tenancy(0, 1), CHOICES, None, past=Past(Window(3000), 100))
    session.past.stands_at(700)
    resumed = Session.continued(session.so_far(), Saved(), Tenancy(0, 2), lambda: None, time.monotonic)
    assert resumed.past.used == 700 and resumed.past.prompt == 100
