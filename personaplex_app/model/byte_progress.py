"""How far a long piece of writing or fetching has come, told in a line now and then.

In: bytes done. Out: lines such as `Fetching: 3.21 of 16.7 GB, 19 %, 85 MB/s, 3 min left`, about one a second while the
per cent grow, else one in ten seconds.
Must not know: files, the Hub, who reads the lines.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

Report = Callable[[str], None]

QUIET_SECONDS = 1.0
LONGEST_SILENCE_SECONDS = 10.0
SPEED_SECONDS = 10.0  # what the speed is the mean of
_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def size_words(count_bytes: float) -> str:
    """`16.7 GB`, `384 MB`, `12 bytes`: three digits, decimal units as the Hub and disks have them."""
    for unit, name in _UNITS:
        if count_bytes >= unit * 0.9995:
            value = count_bytes / unit
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {name}"
    return f"{count_bytes:.0f} bytes"


def time_words(seconds: float) -> str:
    """`40 s`, `3 min`, `2.5 h`."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class ByteProgress:
    """Tells how much of a known number of bytes is done.

    Args:
        what: how a line begins. total_bytes: all there is to do. start_bytes: what was done before this began.
        report: takes a line; `reach` and `add` call it, in whatever thread they are called.
    """

    def __init__(
        self,
        what: str,
        total_bytes: int,
        report: Report,
        start_bytes: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what = what
        self._total = total_bytes
        self._report = report
        self._clock = clock
        self._done = start_bytes
        self._told_at = clock()
        self._told_percent = -1
        self._looks = deque([(self._told_at, start_bytes)])

    def add(self, count_bytes: int) -> None:
        """So many bytes more are done."""
        self.reach(self._done + count_bytes)

    def reach(self, done_bytes: int) -> None:
        """So many bytes are done in all."""
        now, self._done = self._clock(), done_bytes
        silence = now - self._told_at
        if silence < QUIET_SECONDS:
            return
        self._looks.append((now, done_bytes))
        while now - self._looks[1][0] >= SPEED_SECONDS:
            self._looks.popleft()
        percent = int(100 * done_bytes / max(1, self._total))
        if percent != self._told_percent or silence >= LONGEST_SILENCE_SECONDS:
            self._told_at, self._told_percent = now, percent
            self._report(self._line(percent))

    def _line(self, percent: int) -> str:
        (first_at, first_bytes), (last_at, last_bytes) = self._looks[0], self._looks[-1]
        speed = max(0.0, (last_bytes - first_bytes) / max(1e-9, last_at - first_at))
        parts = [f"{self.what}: {size_words(self._done)} of {size_words(self._total)}, {percent} %"]
        parts.append(f"{size_words(speed)}/s")
        if speed > 0:
            parts.append(f"{time_words(max(0, self._total - self._done) / speed)} left")
        return ", ".join(parts)
