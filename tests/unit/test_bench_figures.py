"""Percentiles, misses in a row and the tick line, as they are defined."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personaplex_app.evaluation.bench_figures import Spread, TickLine, longest_run, percentile, spread_of

LINE = TickLine()


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1), (0.1, 1), (0.11, 2), (0.5, 5), (0.9, 9), (0.91, 10), (0.99, 10), (1.0, 10)]
)
def test_a_percentile_is_one_of_the_values(share: float, value: int) -> None:
    assert percentile([7, 3, 10, 1, 9, 2, 8, 4, 6, 5], share) == value


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400), st.integers(0, 1000))
def test_a_percentile_leaves_no_more_above_it_than_it_may(values: list[float], thousandths: int) -> None:
    found = percentile(values, thousandths / 1000)
    below = sum(value <= found for value in values)
    strictly_below = sum(value < found for value in values)
    assert 1000 * below >= thousandths * len(values)
    assert 1000 * strictly_below < max(1, thousandths * len(values))


def test_there_is_no_percentile_of_nothing_nor_beyond_all() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        percentile([1.0], 99)


def test_a_spread_is_in_order_and_may_be_absent() -> None:
    assert spread_of([float(value) for value in range(1, 101)]) == Spread(50, 90, 99, 100)
    assert spread_of([]) is None


@pytest.mark.parametrize(
    ("missed", "run"), [([], 0), ([4], 1), ([1, 3, 5], 1), ([1, 2, 4, 5, 6], 3), ([6, 5, 1], 2), ([2, 2], 1)]
)
def test_the_longest_run_of_misses(missed: list[int], run: int) -> None:
    assert longest_run(missed) == run


def test_the_line_is_kept_at_its_own_figures() -> None:
    assert LINE.met_by([40.0] * 990 + [64.0] * 10, [500], 1000)


@pytest.mark.parametrize(
    ("tick_ms", "missed"),
    [
        ([], []),
        ([40.01] * 1000, []),
        ([40.0] * 989 + [64.01] * 11, []),
        ([10.0] * 1000, [1, 5]),
        ([10.0] * 4000, [7, 8]),
    ],
    ids=["no ticks", "slow median", "slow hundredth", "a miss too many", "two misses in a row"],
)
def test_the_line_is_not_kept(tick_ms: list[float], missed: list[int]) -> None:
    assert not LINE.met_by(tick_ms, missed, max(1, len(tick_ms)))
