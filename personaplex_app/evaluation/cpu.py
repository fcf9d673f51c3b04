"""Where a process on this machine spends its time, thread by thread, as the Linux kernel counts it.

In: a process id. Out: seconds of user and system time between two looks. Must not know: what the threads do.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from personaplex_app.errors import InvalidInput

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class ThreadTime:
    """Seconds that one thread has worked: in its own code, and in the kernel for it."""

    name: str
    user_seconds: float
    system_seconds: float


@dataclass(frozen=True)
class Look:
    """A moment: what every thread has used so far, and what all cores have worked and could have."""

    at: float
    threads: dict[int, ThreadTime]
    busy_seconds: float
    all_seconds: float


@dataclass(frozen=True)
class Spent:
    """Between two looks. `threads` are parts of one core by name, busiest first; `machine` is a part of all cores.

    Attributes:
        cores: how many cores' worth of time the process used.
    """

    seconds: float
    cores: float
    threads: list[ThreadTime] = field(default_factory=list)
    machine: float = 0.0


def look(pid: int, proc: Path = PROC) -> Look:
    """Raises InvalidInput where there is no such process, or no /proc."""
    try:
        threads = {int(task.name): _read_thread(task) for task in (proc / str(pid) / "task").iterdir()}
        busy, total = _read_machine(proc)
    except OSError:
        raise InvalidInput(f"--pid {pid}: there is no such process on this machine.") from None
    return Look(time.monotonic(), threads, busy, total)


def _read_thread(task: Path) -> ThreadTime:
    try:
        head, _, rest = (task / "stat").read_text().rpartition(")")
    except FileNotFoundError:  # it has ended meanwhile
        return ThreadTime("ended", 0.0, 0.0)
    fields = rest.split()
    name = head.partition("(")[2]
    return ThreadTime(name, int(fields[11]) / TICKS_PER_SECOND, int(fields[12]) / TICKS_PER_SECOND)


def _read_machine(proc: Path) -> tuple[float, float]:
    numbers = [int(word) / TICKS_PER_SECOND for word in (proc / "stat").read_text().splitlines()[0].split()[1:9]]
    idle = numbers[3] + numbers[4]
    return sum(numbers) - idle, sum(numbers)


def spent(before: Look, after: Look) -> Spent:
    """What was used in between; threads of one name are one line."""
    seconds = max(after.at - before.at, 1e-9)
    by_name: dict[str, list[float]] = {}
    for thread, now in after.threads.items():
        then = before.threads.get(thread, ThreadTime(now.name, 0.0, 0.0))
        sums = by_name.setdefault(now.name, [0.0, 0.0])
        sums[0] += max(0.0, now.user_seconds - then.user_seconds)
        sums[1] += max(0.0, now.system_seconds - then.system_seconds)
    threads = [ThreadTime(name, user / seconds, system / seconds) for name, (user, system) in by_name.items()]
    threads.sort(key=lambda thread: -(thread.user_seconds + thread.system_seconds))
    cores = sum(thread.user_seconds + thread.system_seconds for thread in threads)
    machine = (after.busy_seconds - before.busy_seconds) / max(after.all_seconds - before.all_seconds, 1e-9)
    return Spent(seconds, cores, threads, machine)
