"""A bench report as a text that people read. Pure.

In: a report. Out: lines. Must not know: how anything was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from personaplex_app.audio import FRAME_MS
from personaplex_app.evaluation.bench_figures import longest_run, spread_of
from personaplex_app.evaluation.bench_report import Answers, GpuMemory, Report

UNKNOWN = "-"
GIB = 2**30
PART_NAMES = {"codec_in": "codec in", "language": "LM step", "codec_out": "codec out"}
Section = Callable[[Report], list[str]]


def table(report: Report) -> str:
    """All sections that have something to say."""
    sections: list[Section] = [_head, _ticks, _parts, _joins, _starts, _memory, _rest, _forced, _verdict]
    texts = ["\n".join(lines) for section in sections if (lines := section(report))]
    return "\n\n".join(texts) + "\n"


def _head(report: Report) -> list[str]:
    settings = ", ".join(f"{name} {value}" for name, value in report.settings.items())
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    return [f"Measured {report.date} with", f"  {report.command}", f"on {machine}", f"with {settings}"]


def _ticks(report: Report) -> list[str]:
    rows = []
    for row in report.rows:
        if row.ticks is None:
            rows.append([str(row.calls), row.failed])
            continue
        ticks = row.ticks
        positions = f"{_whole(ticks.first_position)}..{_whole(ticks.last_position)}"
        misses = [str(ticks.frames), str(len(ticks.missed)), str(longest_run(ticks.missed))]
        kept = "yes" if report.meets_line(row) else "no"
        rows.append([str(row.calls), positions, *misses, *_four(ticks.tick_ms), kept, row.failed])
    names = ["calls", "positions", "frames", "misses", "in a row", "p50", "p90", "p99", "max", "line kept", ""]
    return [f"Whole tick, paced every {FRAME_MS:g} ms: milliseconds", *_columns(names, rows)]


def _parts(report: Report) -> list[str]:
    rows = []
    for row in report.rows:
        if row.ticks is None:
            continue
        parts = [_two(row.ticks.parts_ms.get(part, [])) for part in PART_NAMES]
        speed = row.throughput
        real = [f"{speed.frames_per_second:.0f}", f"{speed.calls_in_real_time:.1f}"] if speed else [UNKNOWN] * 2
        rows.append([str(row.calls), *parts, _two(row.ticks.host_ms), *real])
    if not rows:
        return []
    host_is = next(row.ticks.host_is for row in report.rows if row.ticks)
    names = ["calls", *PART_NAMES.values(), "host", "unpaced frames/s", "calls in real time"]
    return [f"Parts of the tick, p50 / p99 milliseconds (host: {host_is})", *_columns(names, rows)]


def _joins(report: Report) -> list[str]:
    rows = []
    for row in report.rows:
        if (joins := row.joins) is None:
            continue
        prime = f"{median(joins.prime_ms):.1f}" if joins.prime_ms else UNKNOWN
        who = [str(row.calls), str(joins.joined), _whole(joins.prompt_positions), prime]
        rows.append([*who, *_quiet_and_joining(joins.quiet, joins.joining), "yes" if joins.windows_kept else "no"])
    if not rows:
        return []
    names = ["calls", "joined", "positions", "ready p50", "tick p99", "with joins", "answer p99", "with joins"]
    title = (
        "One call a second leaves and a new one joins: milliseconds; answer: from a frame's arrival to its tick's end"
    )
    return [title, *_columns([*names, "misses", "with joins", "windows full"], rows)]


def _quiet_and_joining(quiet: Answers, joining: Answers) -> list[str]:
    ticks = [_p99(quiet.tick_ms), _p99(joining.tick_ms)]
    answers = [_p99(quiet.answer_ms), _p99(joining.answer_ms)]
    return [*ticks, *answers, str(len(quiet.missed)), str(len(joining.missed))]


def _starts(report: Report) -> list[str]:
    rows = [
        [str(row.calls), _whole(start.positions), *_mid_and_most(start.new_ms), *_mid_and_most(start.known_ms)]
        for row in report.rows
        for start in row.starts
    ]
    names = ["calls", "positions", "new p50", "max", "known p50", "max"]
    return ["A talk's start on the idle engine: milliseconds", *_columns(names, rows)] if rows else []


def _memory(report: Report) -> list[str]:
    rows = []
    for row in report.rows:
        memory = row.memory
        stages = [_reserved(stage) for stage in (memory.loaded, memory.windows_full, memory.ended)]
        peaks = [
            _gib(stage.peak_reserved_bytes if stage else None) for stage in (memory.loaded, memory.paced, memory.ended)
        ]
        rest = [_gib(memory.weights_bytes), _mib(memory.call_state_bytes), _gib(memory.host_bytes)]
        rows.append([str(row.calls), *stages, *peaks, *rest])
    names = ["calls", "loaded", "windows full", "at the end", "peak: loading", "ticks", "all"]
    title = (
        "Memory: the GPU's in GiB, allocated / reserved, peaks reserved; weights and host in GiB, a call's state in MiB"
    )
    return [title, *_columns([*names, "weights", "call's state", "host"], rows)]


def _rest(report: Report) -> list[str]:
    rows = []
    for row in report.rows:
        idle = UNKNOWN if row.idle_cpu_seconds is None else f"{row.idle_cpu_seconds:.3f} of {row.idle_seconds:g}"
        same = row.agreement
        shares = [UNKNOWN] * 3
        if same is not None:
            codes = _share(same.codes_equal, same.codes)
            shares = [_share(same.text_equal, same.frames), codes, _share(same.whole_frames_equal, same.frames)]
        times = [_seconds(row.load_seconds), _seconds(row.fill_seconds)]
        rows.append([str(row.calls), *times, idle, *shares])
    names = ["calls", "load s", "fill s", "idle CPU s", "text equal", "codes equal", "frames equal"]
    return ["Loading, idling, and one call's greedy tokens alone against among all", *_columns(names, rows)]


def _forced(report: Report) -> list[str]:
    same = report.forced
    if same is None:
        return []
    return [
        f"Against {same.against}, the same talk forced upon both: "
        f"text tokens equal {_share(same.text_equal, same.frames)}, codes {_share(same.codes_equal, same.codes)} "
        f"of {same.frames} frames; by the weights alone likeliest text token equal "
        f"{_share(same.top_equal, same.frames)}, KL {same.kl_nats:.4f} nats."
    ]


def _verdict(report: Report) -> list[str]:
    line = report.line
    misses = f"misses <= 1 in {1 / line.miss_share:.0f}, never two in a row"
    rule = f"p50 <= {line.p50_ms:g} ms, p99 <= {line.p99_ms:g} ms, {misses}"
    best = report.capacity_calls
    found = "none of those tried" if best is None else f"{best} {'call' if best == 1 else 'calls'}"
    return [f"The most that keeps to the tick line ({rule}): {found}."]


def _columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned to the right; a row may be short, its last cell is then as wide as it likes."""
    full = [row for row in rows if len(row) == len(names)]
    widths = [max(len(line[place]) for line in [names, *full]) for place in range(len(names))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False)) for row in [names, *rows]]
    return [f"  {line.rstrip()}" for line in lines]


def _four(values_ms: Sequence[float]) -> list[str]:
    spread = spread_of(values_ms)
    if spread is None:
        return [UNKNOWN] * 4
    return [f"{one:.2f}" for one in (spread.p50_ms, spread.p90_ms, spread.p99_ms, spread.max_ms)]


def _two(values_ms: Sequence[float]) -> str:
    p50, _, p99, _ = _four(values_ms)
    return UNKNOWN if p50 == UNKNOWN else f"{p50} / {p99}"


def _p99(values_ms: Sequence[float]) -> str:
    return _four(values_ms)[2]


def _mid_and_most(values_ms: Sequence[float]) -> list[str]:
    p50, _, _, most = _four(values_ms)
    return [p50, most]


def _reserved(stage: GpuMemory | None) -> str:
    return UNKNOWN if stage is None else f"{_gib(stage.allocated_bytes)} / {_gib(stage.reserved_bytes)}"


def _gib(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count / GIB:.2f}"


def _mib(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count / 2**20:.1f}"


def _whole(count: int | None) -> str:
    return UNKNOWN if count is None else str(count)


def _seconds(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:.1f}"


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.1f} %" if of else UNKNOWN
