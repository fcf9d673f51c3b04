"""The line's estimate: from how long talks last here and how long the present ones have lasted."""

from __future__ import annotations

import pytest

from personaplex_app.engine.waits import FIRST_GUESS_SECONDS, LEAST_LEFT_SECONDS, REMEMBERED, TalkLengths


def test_before_any_talk_there_is_a_first_guess() -> None:
    assert TalkLengths(1).mean_seconds == FIRST_GUESS_SECONDS


def test_the_last_talks_count() -> None:
    lengths = TalkLengths(1)
    lengths.note(20)
    assert lengths.mean_seconds == (FIRST_GUESS_SECONDS + 20) / 2
    for _ in range(REMEMBERED):
        lengths.note(60)
    assert lengths.mean_seconds == 60


@pytest.mark.parametrize(
    ("slots", "lasted", "place", "seconds"),
    [
        (1, [0], 1, 60),
        (1, [50], 1, 10),
        (1, [59], 1, LEAST_LEFT_SECONDS),
        (1, [1000], 1, LEAST_LEFT_SECONDS),
        (1, [10], 3, 50 + 2 * 60),
        (2, [10, 40], 1, 20),
        (2, [10, 40], 2, 50),
        (2, [10, 40], 3, 20 + 60),
        (2, [10, 40], 4, 50 + 60),
        (2, [10], 1, 0),
        (2, [], 5, 2 * 60),
        (3, [30], 0, 0),
    ],
)
def test_the_wait_at_a_place(slots: int, lasted: list[float], place: int, seconds: float) -> None:
    lengths = TalkLengths(slots)
    for _ in range(REMEMBERED):
        lengths.note(60)
    assert lengths.wait_seconds(place, lasted) == seconds
