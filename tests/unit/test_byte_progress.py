"""Lines that say how far it is: one a second at most, in units that people read."""

from __future__ import annotations

import pytest

from personaplex_app.model.byte_progress import ByteProgress, size_words, time_words

GB = 10**9


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (12, "12 bytes"),
        (999, "999 bytes"),
        (1000, "1.00 kB"),
        (99_960, "100 kB"),
        (384_605_572, "385 MB"),
        (999_600_000, "1.00 GB"),
        (9_995_000_000, "10.0 GB"),
        (16_742_874_624, "16.7 GB"),
        (3.2e12, "3.20 TB"),
    ],
)
def test_sizes(count: float, words: str) -> None:
    assert size_words(count) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (5000, "83 min"), (9000, "2.5 h")]
)
def test_times(seconds: float, words: str) -> None:
    assert time_words(seconds) == words


class Told:
    """A clock that tests move, and the lines that were told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[str] = []

    def progress(self, total: int, start: int = 0) -> ByteProgress:
        return ByteProgress("Fetching x", total, self.lines.append, start, lambda: self.now)


def test_a_line_says_how_much_how_fast_and_how_long() -> None:
    told = Told()
    progress = told.progress(16 * GB, 4 * GB)
    told.now = 2.0
    progress.add(GB // 5)
    assert told.lines == ["Fetching x: 4.20 GB of 16.0 GB, 26 %, 100 MB/s, 2 min left"]


def test_a_line_a_second_while_it_goes_on_and_one_in_ten_where_it_stands() -> None:
    told = Told()
    progress = told.progress(100)
    for tenth in range(1, 31):
        told.now = tenth / 10
        progress.reach(tenth)
    assert [line.split(", ")[1] for line in told.lines] == ["10 %", "20 %", "30 %"]
    for second in range(4, 60):
        told.now = float(second)
        progress.reach(30)
    assert len(told.lines) == 3 + 5
    assert told.lines[-1] == "Fetching x: 30 bytes of 100 bytes, 30 %, 0 bytes/s"


def test_the_speed_is_that_of_the_last_ten_seconds() -> None:
    told = Told()
    progress = told.progress(1000 * GB)
    done = 0
    for second in range(1, 41):
        told.now = float(second)
        done += 10 * GB if second <= 20 else 20 * GB
        progress.reach(done)
    assert ", 20.0 GB/s, " in told.lines[-1]


def test_quick_work_tells_nothing() -> None:
    told = Told()
    progress = told.progress(100)
    progress.add(100)
    assert told.lines == []


def test_nothing_to_do_is_no_division_by_zero() -> None:
    told = Told()
    progress = told.progress(0)
    told.now = 1.5
    progress.reach(0)
    assert told.lines == ["Fetching x: 0 bytes of 0 bytes, 0 %, 0 bytes/s"]
