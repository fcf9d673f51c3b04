"""Packets in order: none waits without a hole, none is given twice, and no hole is waited for longer than it pays."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personaplex_app.web.arrivals import (
    CALM_PACKETS,
    LEAST_PATIENCE,
    MOST_LOST_IN_ROW,
    MOST_PATIENCE,
    NUMBERS,
    RESTART_PACKETS,
    InOrder,
)


def _runs(numbers: list[int], order: InOrder[int] | None = None) -> list[list[int | None]]:
    order = order or InOrder()
    return [order.push(number % NUMBERS, number) for number in numbers]


def test_without_a_hole_nothing_waits() -> None:
    assert _runs([7, 8, 9]) == [[7], [8], [9]]


def test_a_hole_is_waited_for_by_one_packet_at_first() -> None:
    assert _runs([1, 3, 2, 4]) == [[1], [], [2, 3], [4]]
    assert _runs([1, 3, 4, 5]) == [[1], [], [None, 3, 4], [5]]


def test_what_comes_too_late_is_left_out_and_teaches_patience() -> None:
    order: InOrder[int] = InOrder()
    assert _runs([1, 3, 4, 2, 5], order) == [[1], [], [None, 3, 4], [], [5]]
    assert (order.counters.lost, order.counters.late, order.patience) == (1, 1, 2)
    assert _runs([7, 8, 6, 9], order) == [[], [], [6, 7, 8], [9]]
    assert (order.counters.lost, order.counters.late) == (1, 1)


def test_patience_has_a_limit_and_wears_off() -> None:
    order: InOrder[int] = InOrder()
    _runs([*range(20), 10], order)
    assert order.patience == MOST_PATIENCE
    _runs(list(range(20, 20 + 10 * CALM_PACKETS)), order)
    assert order.patience == LEAST_PATIENCE


def test_a_packet_that_comes_twice_is_given_once() -> None:
    assert _runs([1, 3, 3, 2, 2, 4]) == [[1], [], [], [2, 3], [], [4]]


def test_a_long_hole_is_marked_in_part_only() -> None:
    order: InOrder[int] = InOrder()
    assert _runs([1, 21, 22], order)[-1] == [None] * MOST_LOST_IN_ROW + [21, 22]
    assert order.counters.lost == 19


def test_numbers_wrap() -> None:
    first = NUMBERS - 2
    assert _runs([first, first + 1, first + 3, first + 2, first + 4]) == [
        [first],
        [first + 1],
        [],
        [first + 2, first + 3],
        [first + 4],
    ]


@pytest.mark.parametrize("jump", [RESTART_PACKETS, -RESTART_PACKETS, NUMBERS // 2])
def test_a_far_jump_is_another_stream(jump: int) -> None:
    start = 1000
    assert _runs([start, start + 2, start + 1 + jump, start + 2 + jump]) == [
        [start],
        [],
        [start + 1 + jump],
        [start + 2 + jump],
    ]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 0.3), st.floats(0, 4.0))
def test_on_any_line_packets_stay_in_order_and_few_wait(seed: int, loss: float, spread: float) -> None:
    rng = random.Random(seed)
    sent = [number for number in range(300) if rng.random() >= loss]
    arriving = sorted(sent, key=lambda number: number + rng.random() * spread)
    order: InOrder[int] = InOrder()
    given_out: list[int] = []
    for number in arriving:
        run = order.push(number, number)
        assert not run or run[-1] is not None
        given_out += [packet for packet in run if packet is not None]
        assert len(order._held) <= MOST_PATIENCE
    assert given_out == sorted(set(given_out))
    assert len(given_out) + order.counters.late + len(order._held) == len(sent)


def test_once_it_knows_the_line_nothing_comes_too_late() -> None:
    rng = random.Random(3)
    arriving = sorted(range(400), key=lambda number: number + rng.random() * 2.5)  # 50 ms of jitter, packets of 20 ms
    order: InOrder[int] = InOrder()
    _runs(arriving[:100], order)
    late_at_first = order.counters.late
    _runs(arriving[100:], order)
    assert order.patience == 2 and order.counters.late == late_at_first <= 2
