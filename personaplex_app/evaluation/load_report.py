"""A load's figures: every call counted, percentiles over all bursts, where the server's time went. Pure.

In: results and, where it was watched, the server's use of the processor. Out: a table for people, a mapping for JSON.
Must not know: how calls are made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from personaplex_app.evaluation.calls import CallResult
from personaplex_app.evaluation.cpu import Spent

PERCENTS = (50, 90, 99, 100)
OUTCOMES = ("completed", "refused", "failed")
MOST_THREADS = 6
MOST_REASONS = 5
TOO_LATE_PART = 0.01


@dataclass(frozen=True)
class Load:
    """All that is known of one load.

    Attributes:
        seconds: how long all calls talked together. client_cpu_seconds: of all callers, over their whole run.
        spent: the server's, while all talked; None where it was not watched.
    """

    url: str
    seconds: float
    results: Sequence[CallResult]
    processes: int
    client_cpu_seconds: float
    spent: Spent | None = None


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """p50, p90, p99 and the largest; None of nothing."""
    if not len(values):
        return None
    names = ("p50", "p90", "p99", "max")
    return dict(zip(names, np.round(np.percentile(values, PERCENTS), 1).tolist(), strict=True))


def summary(results: Sequence[CallResult]) -> dict[str, Any]:
    """The figures of some calls together; refused and failed ones stay in the count."""
    begun = [result for result in results if result.begun]
    outcomes = Counter(result.outcome for result in results)
    codes = Counter(f"{result.outcome}: {result.code}" for result in results if result.outcome != "completed")
    lost = [result.packets_lost for result in begun if result.packets_lost is not None]
    return {
        "calls": len(results),
        **{name: outcomes[name] for name in OUTCOMES},
        "reasons": dict(codes.most_common()),
        "mouth_to_ear_ms": percentiles([delay for result in begun for delay in result.delays_ms]),
        "bursts": sum(result.bursts for result in begun),
        "bursts_heard": sum(len(result.delays_ms) for result in begun),
        "connect_ms": percentiles([result.connect_ms for result in begun if result.connect_ms is not None]),
        "gaps": sum(result.gaps for result in begun),
        "gap_ms": round(sum(result.gap_ms for result in begun), 1),
        "shed_ms": round(sum(result.shed_ms for result in begun), 1),
        "call_seconds": round(sum(result.seconds for result in begun), 1),
        "heard_seconds": round(sum(result.heard_seconds for result in begun), 1),
        "packets_lost": sum(lost) if lost else None,
        "server_counters": _sums([result.counters for result in begun]),
        "own_pieces": sum(result.pieces for result in begun),
        "own_late_pieces": sum(result.late_pieces for result in begun),
        "own_worst_late_ms": max((result.worst_late_ms for result in begun), default=0.0),
        "unsent": sum(result.unsent for result in begun),
        "losses": sum(result.losses for result in begun),
    }


def _sums(counters: Sequence[dict[str, Any]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counters:
        total.update({name: value for name, value in one.items() if isinstance(value, int)})
    return dict(total)


def as_json(load: Load) -> dict[str, Any]:
    """Everything, each call included."""
    spent = None if load.spent is None else asdict(load.spent)
    return {
        "url": load.url,
        "seconds": load.seconds,
        "processes": load.processes,
        "client_cpu_seconds": round(load.client_cpu_seconds, 2),
        "all": summary(load.results),
        "kinds": {kind: summary(results) for kind, results in _by_kind(load.results).items()},
        "server": spent,
        "calls": [asdict(result) for result in load.results],
    }


def _by_kind(results: Sequence[CallResult]) -> dict[str, list[CallResult]]:
    kinds = sorted({result.kind for result in results})
    return {kind: [result for result in results if result.kind == kind] for kind in kinds}


def as_text(load: Load) -> str:
    """A readable table."""
    total = summary(load.results)
    counts = ", ".join(f"{total[name]} {name}" for name in OUTCOMES)
    lines = [f"{total['calls']} calls, {load.seconds:g} s together: {counts}"]
    lines += [f"  {count} {reason}" for reason, count in list(total["reasons"].items())[:MOST_REASONS]]
    if total["losses"]:
        lines.append(f"  {total['losses']} lost connections, to be found again by the talk's grant")
    lines += ["", _HEAD] + [_row(kind, summary(results)) for kind, results in _by_kind(load.results).items()]
    if len(_by_kind(load.results)) > 1:
        lines.append(_row("all", total))
    counters = ", ".join(f"{name} {value}" for name, value in total["server_counters"].items())
    lines += ["", f"frames, as the server counts them: {counters or 'nothing told'}"]
    lines += _own_words(load, total) + _server_words(load)
    return "\n".join(lines)


_COLUMNS = "{:<8}{:>6}{:>8}{:>8}{:>8}{:>8}{:>11}{:>9}{:>9}{:>7}{:>9}{:>9}{:>7}"
_HEAD = _COLUMNS.format(
    "", "calls", "p50", "p90", "p99", "max", "heard", "connect", "max", "gaps", "of time", "shed", "lost"
) + ("   (mouth to ear and connect in ms; heard: bursts; gaps, shed: of the ear; lost: RTP packets)")


def _row(name: str, figures: dict[str, Any]) -> str:
    delay, connect = (figures[key] or {} for key in ("mouth_to_ear_ms", "connect_ms"))
    seconds = figures["call_seconds"] or 1.0
    return _COLUMNS.format(
        name,
        figures["calls"],
        *(delay.get(key, "-") for key in ("p50", "p90", "p99", "max")),
        f"{figures['bursts_heard']}/{figures['bursts']}",
        *(connect.get(key, "-") for key in ("p50", "max")),
        figures["gaps"],
        *(f"{figures[key] / 10 / seconds:.2f} %" for key in ("gap_ms", "shed_ms")),
        "-" if figures["packets_lost"] is None else figures["packets_lost"],
    )


def _own_words(load: Load, total: dict[str, Any]) -> list[str]:
    """How well the callers did their own part; where they did not, the delays above are theirs too."""
    late, pieces = total["own_late_pieces"], total["own_pieces"]
    words = f"callers: {load.processes} processes, {load.client_cpu_seconds:.1f} s of CPU; {late} of {pieces} pieces"
    words += f" said more than 20 ms late, {total['own_worst_late_ms']:.0f} ms at worst"
    if total["unsent"]:
        words += f"; {total['unsent']} pieces not taken by the network"
    if pieces and late / pieces > TOO_LATE_PART:
        words += "\nTHE CALLERS MISSED THEIR OWN SCHEDULE: part of the delay is theirs. Use more cores, or fewer calls."
    return [words]


def _server_words(load: Load) -> list[str]:
    spent = load.spent
    if spent is None:
        return ["server's CPU: not watched (give --pid of a server on this machine)"]
    talking = sum(result.begun for result in load.results) or 1
    lines = [
        f"server's CPU: {100 * spent.cores:.0f} % of one core over {spent.seconds:.0f} s, "
        f"{100 * spent.cores / talking:.1f} % a call; this machine's cores were {100 * spent.machine:.0f} % busy"
    ]
    for thread in spent.threads[:MOST_THREADS]:
        user, system = 100 * thread.user_seconds, 100 * thread.system_seconds
        lines.append(f"  {thread.name:<16}{user + system:6.1f} %   (user {user:.1f}, system {system:.1f})")
    return lines
