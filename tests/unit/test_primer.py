"""Prompts are read in the time that ticks leave over; who talks does not wait, and who comes is not forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.pace import MOST_DEFERRED_SECONDS
from personaplex_app.engine.primer import Primer
from personaplex_app.engine.session import Session

NOBODY = cast(Session, SimpleNamespace())


class World:
    """A clock that pieces move on."""

    def __init__(self, pieces: int, seconds: float) -> None:
        self.now = 100.0
        self.done: list[Any] = []
        self.pieces, self.seconds = pieces, seconds
        self.primer = Primer(self.begin, lambda: self.now)

    def begin(self, session: Session) -> Iterator[None]:
        for piece in range(self.pieces):
            if piece:
                yield
            self.now += self.seconds
            self.done.append((session, piece))


def test_a_prompt_is_ready_after_its_last_piece() -> None:
    world = World(3, 0.01)
    assert [world.primer.work_for(NOBODY) for _ in range(3)] == [False, False, True]
    assert world.done == [(NOBODY, piece) for piece in range(3)]


def test_another_newcomer_begins_anew_and_the_old_one_s_rest_is_dropped() -> None:
    world, other = World(3, 0.01), cast(Session, SimpleNamespace())
    world.primer.work_for(NOBODY)
    assert [world.primer.work_for(other) for _ in range(3)] == [False, False, True]
    assert [session for session, _ in world.done] == [NOBODY, other, other, other]


@pytest.mark.parametrize(("since_tick", "fits"), [(0.0, True), (0.04, True), (0.07, False), (0.08, False)])
def test_a_piece_is_done_only_where_it_fits_before_the_next_tick(since_tick: float, fits: bool) -> None:
    world = World(2, 0.02)
    world.primer.work_for(NOBODY)
    assert world.primer.may_work(world.now - since_tick, anybody_talks=True) is fits
    assert world.primer.may_work(world.now - since_tick, anybody_talks=False)


def test_before_the_first_tick_and_where_nothing_ticks_there_is_nothing_to_wait_for() -> None:
    world = World(2, 0.02)
    world.primer.work_for(NOBODY)
    assert world.primer.may_work(float("-inf"), anybody_talks=True)
    assert world.primer.may_work(world.now - 2.1 * FRAME_SECONDS, anybody_talks=True)


def test_a_piece_that_never_fits_is_done_after_some_ticks() -> None:
    world = World(9, 0.09)
    world.primer.work_for(NOBODY)
    began = world.now
    while not world.primer.may_work(world.now, anybody_talks=True):
        world.now += FRAME_SECONDS
    assert MOST_DEFERRED_SECONDS <= world.now - began < MOST_DEFERRED_SECONDS + 2 * FRAME_SECONDS
    world.primer.work_for(NOBODY)
    assert not world.primer.may_work(world.now, anybody_talks=True), "and the next one waits again"


def test_a_long_piece_is_remembered_and_forgotten_slowly() -> None:
    world = World(40, 0.05)
    world.primer.work_for(NOBODY)
    assert not world.primer.may_work(world.now - 0.03, anybody_talks=True)
    world.seconds = 0.001
    for _ in range(20):
        world.primer.work_for(NOBODY)
    assert world.primer.may_work(world.now - 0.03, anybody_talks=True)


def test_what_fails_is_not_gone_on_with() -> None:
    def begin(session: Session) -> Iterator[None]:
        yield
        raise RuntimeError("broken")

    primer = Primer(begin, lambda: 0.0)
    assert primer.work_for(NOBODY) is False
    with pytest.raises(RuntimeError, match="broken"):
        primer.work_for(NOBODY)
    assert primer.work_for(NOBODY) is False, "from the beginning"
