"""So many joins in a window that slides, per name; names that are old are forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.engine.joins import SWEEP_ABOVE, JoinLimit


def test_the_window_slides() -> None:
    limit = JoinLimit(most=3, within_seconds=60)
    for now in (0, 10, 20):
        assert limit.wait_seconds("a", now) == 0
        limit.note("a", now)
    assert limit.wait_seconds("a", 25) == 35
    assert limit.wait_seconds("a", 59.5) == 0.5
    assert limit.wait_seconds("a", 60) == 0
    limit.note("a", 60)
    assert limit.wait_seconds("a", 60) == 10, "the one of second 10 is the oldest now"


def test_names_have_nothing_to_do_with_each_other() -> None:
    limit = JoinLimit(most=1, within_seconds=60)
    limit.note("a", 0)
    assert limit.wait_seconds("a", 1) > 0 and limit.wait_seconds("b", 1) == 0


@given(st.lists(st.integers(0, 240), max_size=60), st.integers(1, 6))
def test_no_window_ever_holds_more(gaps: list[int], most: int) -> None:
    """Gaps are eighths of a second: sums of them are exact."""
    limit, now, joined = JoinLimit(most, 60.0), 0.0, []
    for gap in gaps:
        now += gap / 8
        wait = limit.wait_seconds("a", now)
        recent = [at for at in joined if at > now - 60]
        assert (wait == 0) == (len(recent) < most) and wait <= 60
        if wait == 0:
            limit.note("a", now)
            joined.append(now)
    assert all(sum(at <= other < at + 60 for other in joined) <= most for at in joined)


def test_memory_is_bounded_by_the_rate() -> None:
    limit = JoinLimit(most=6, within_seconds=60)
    for number in range(20 * SWEEP_ABOVE):
        limit.note(f"visitor {number}", number * 0.1)  # ten a second: 600 within a window
    assert len(limit._joins) <= SWEEP_ABOVE + 1
    assert limit.wait_seconds("visitor 0", 2_000) == 0
