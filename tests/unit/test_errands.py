"""Errands are done piece by piece in the order they came; what nobody waits for is never done at a talk's cost."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import CancelledError

import pytest

from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.errands import FAILED, Errands
from personaplex_app.engine.pace import MOST_DEFERRED_SECONDS
from personaplex_app.errors import InvalidInput, ServerFault


class World:
    """A clock that pieces move on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.done: list[str] = []
        self.errands = Errands(lambda: self.now)

    def pieces(self, name: str, count: int = 2, seconds: float = 0.02) -> Generator[None, None, str]:
        try:
            for piece in range(count):
                self.now += seconds
                self.done.append(f"{name}{piece}")
                yield
            return name
        finally:
            self.done.append(f"{name} over")

    def work_off(self) -> None:
        while self.errands.may_work(self.now, anybody_talks=False):
            self.errands.work()


def test_errands_are_done_one_after_another_and_what_can_wait_comes_last() -> None:
    world = World()
    later = world.errands.put(world.pieces("later"), background=True)
    first, second = (world.errands.put(world.pieces(name)) for name in ("a", "b"))
    world.work_off()
    assert [one.result(0) for one in (first, second, later)] == ["a", "b", "later"]
    assert world.done == ["a0", "a1", "a over", "b0", "b1", "b over", "later0", "later1", "later over"]


def test_what_is_urgent_goes_between_the_pieces_of_what_is_not() -> None:
    world = World()
    world.errands.put(world.pieces("later"), background=True)
    world.errands.work()
    world.errands.put(world.pieces("a"))
    world.work_off()
    assert world.done == ["later0", "a0", "a1", "a over", "later1", "later over"]


def test_a_piece_that_does_not_fit_is_put_off_but_not_for_ever() -> None:
    world = World()
    world.errands.put(world.pieces("a", seconds=0.05))
    world.errands.work()
    assert not world.errands.may_work(world.now - 0.5 * FRAME_SECONDS, anybody_talks=True)
    world.now += MOST_DEFERRED_SECONDS + 0.001
    assert world.errands.may_work(world.now - 0.5 * FRAME_SECONDS, anybody_talks=True)


def test_what_can_wait_waits_as_long_as_it_does_not_fit() -> None:
    world = World()
    world.errands.put(world.pieces("later", seconds=0.05), background=True)
    world.errands.work()
    for _ in range(100):
        assert not world.errands.may_work(world.now - 0.5 * FRAME_SECONDS, anybody_talks=True)
        world.now += FRAME_SECONDS
    assert world.errands.may_work(world.now, anybody_talks=True), "right after a tick there is room"


def _failing(error: Exception) -> Generator[None, None, None]:
    yield
    raise error


def test_what_an_errand_raises_is_told_to_who_sent_it_and_the_next_goes_on() -> None:
    world = World()
    refused = world.errands.put(_failing(InvalidInput("no good")))
    broken = world.errands.put(_failing(RuntimeError("device lost")))
    good = world.errands.put(world.pieces("a"))
    world.work_off()
    assert isinstance(refused.exception(0), InvalidInput) and good.result(0) == "a"
    assert isinstance(broken.exception(0), ServerFault) and str(broken.exception(0)) == FAILED


def test_a_cancelled_errand_is_dropped_begun_or_not() -> None:
    world = World()
    begun, waiting, kept = (world.errands.put(world.pieces(name)) for name in ("a", "b", "c"))
    world.errands.work()
    assert begun.cancel() and waiting.cancel()
    world.work_off()
    assert world.done == ["a0", "a over", "c0", "c1", "c over"] and kept.result(0) == "c"
    with pytest.raises(CancelledError):
        begun.result(0)


def test_an_errand_that_cannot_be_ended_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def stubborn() -> Generator[None, None, None]:
        try:
            yield
        except GeneratorExit:
            raise RuntimeError("not me") from None

    world = World()
    future = world.errands.put(stubborn())
    world.errands.work()
    future.cancel()
    assert not world.errands.may_work(world.now, anybody_talks=False)
    assert "could not be ended" in caplog.text


def test_after_the_end_all_that_waits_fails_and_nothing_is_taken() -> None:
    world = World()
    left = world.errands.put(world.pieces("a"))
    world.errands.close("The server is shutting down.")
    with pytest.raises(ServerFault, match="shutting down"):
        left.result(0)
    with pytest.raises(ServerFault, match="shutting down"):
        world.errands.put(world.pieces("b"))
    assert not world.errands.may_work(world.now, anybody_talks=False)
    world.errands.work()
    assert not [name for name in world.done if not name.endswith("over")], "nothing was done"


def test_an_errand_may_end_the_errands_itself() -> None:
    world = World()

    def last() -> Generator[None, None, str]:
        yield
        world.errands.close("over")
        return "late"

    future = world.errands.put(last())
    world.work_off()
    with pytest.raises(ServerFault, match="over"):
        future.result(0)
