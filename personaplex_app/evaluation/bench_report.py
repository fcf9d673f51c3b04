"""What a bench run found, as values. Pure.

In: figures. Out: a report of rows, one for each number of calls. Must not know: how anything was measured, files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from personaplex_app.evaluation.bench_figures import TickLine


@dataclass(frozen=True)
class Ticks:
    """Paced ticks of all calls over the stepper alone.

    Attributes:
        frames: how many were due. missed: indices of those that came too late or never.
        tick_ms: one a tick. parts_ms: codec_in, language, codec_out, one a tick; parts that cannot be told are absent.
        host_ms: the interpreter's time, a tick each. host_is: how that was taken.
        first_position, last_position: where the calls stood in their windows; None where that is unknown.
    """

    frames: int
    missed: list[int]
    tick_ms: list[float]
    parts_ms: dict[str, list[float]]
    host_ms: list[float]
    host_is: str
    first_position: int | None = None
    last_position: int | None = None


@dataclass(frozen=True)
class Throughput:
    """Steps without a pause: frames of all calls together a second, and the calls that real time would allow."""

    steps: int
    frames_per_second: float
    calls_in_real_time: float


@dataclass(frozen=True)
class Answers:
    """Paced ticks of the engine: how long each took, and how long a frame waited for the end of the tick it was in."""

    frames: int
    missed: list[int]
    tick_ms: list[float]
    answer_ms: list[float]


@dataclass(frozen=True)
class Joins:
    """The engine with nobody coming or going, and with one call that leaves and one that joins every second.

    Attributes:
        joined, prompt_positions, prime_ms: how many came, how long their new prompts were, how long each took.
        windows_kept: whether the calls that stayed had the windows that were filled.
    """

    quiet: Answers
    joining: Answers
    joined: int
    prompt_positions: int | None
    prime_ms: list[float]
    windows_kept: bool


@dataclass(frozen=True)
class Start:
    """From asking to the slot being ready, on an idle engine: a new persona, and the same one again."""

    positions: int | None
    new_ms: list[float]
    known_ms: list[float]


@dataclass(frozen=True)
class Agreement:
    """One call's greedy step alone and among all others, each from the same state and the same heard frame."""

    frames: int
    text_equal: int
    codes_equal: int
    codes: int
    whole_frames_equal: int


@dataclass(frozen=True)
class Forced:
    """A greedy talk forced upon these weights and this past, against others.

    Attributes:
        text_equal: of `frames` text tokens. codes_equal: of `codes`.
        top_equal: likeliest text token, of `frames`, by the weights alone.
        kl_nats: of the text distributions, the mean of all frames, by the weights alone.
        against: what recorded the talk, in words.
    """

    frames: int
    text_equal: int
    codes_equal: int
    codes: int
    top_equal: int
    kl_nats: float
    against: str = "unquantized weights and past"


@dataclass(frozen=True)
class GpuMemory:
    """What torch's allocator holds, bytes."""

    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int


@dataclass
class Memory:
    """Where the memory goes: after each stage, with the peak so far; the peaks in `loaded` are those of loading alone.

    Attributes:
        call_state_bytes: of a copy of one call's state, as `save` makes it. host_bytes: of the process, at the end.
    """

    loaded: GpuMemory | None = None
    windows_full: GpuMemory | None = None
    paced: GpuMemory | None = None
    ended: GpuMemory | None = None
    weights_bytes: int | None = None
    call_state_bytes: int | None = None
    host_bytes: int | None = None


@dataclass
class Row:
    """One number of calls; what was not measured, or failed, is None. `failed` says in words what went wrong."""

    calls: int
    failed: str = ""
    load_seconds: float | None = None
    fill_seconds: float | None = None
    ticks: Ticks | None = None
    throughput: Throughput | None = None
    joins: Joins | None = None
    starts: list[Start] = field(default_factory=list)
    agreement: Agreement | None = None
    memory: Memory = field(default_factory=Memory)
    idle_seconds: float | None = None
    idle_cpu_seconds: float | None = None


@dataclass
class Report:
    """A whole run: when, where, how, and a row for each number of calls."""

    date: str
    command: str
    machine: dict[str, str]
    settings: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    forced: Forced | None = None
    line: TickLine = field(default_factory=TickLine)

    def meets_line(self, row: Row) -> bool:
        """Whether a row's paced ticks keep to the tick line."""
        ticks = row.ticks
        return ticks is not None and self.line.met_by(ticks.tick_ms, ticks.missed, ticks.frames)

    @property
    def capacity_calls(self) -> int | None:
        """The largest number of calls of those tried that keeps to the tick line."""
        return max((row.calls for row in self.rows if self.meets_line(row)), default=None)
