"""Every counter and histogram of the product, in one place. Pure: needs prometheus_client and nothing else.

In: what happened, by plain calls from any thread, and a function that reads the gauges when somebody looks.
Out: the text that Prometheus scrapes. Labels come from the lists below, never from what a client sent; what stands in
no list counts as `other`. Must not know: the engine, the web.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeAlias

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from personaplex_app.audio import FRAME_SECONDS

Counts: TypeAlias = object  # a talk's counters: a mapping by name, or an object that has them
PREFIX = "personaplex"
OTHER = "other"
PATHS = ("webrtc", "socket")
ENDS = ("stopped", "idle", "limit", "lost", "fault", "no_answer", "draining")
REFUSALS = (
    "invalid_input",
    "no_capacity",
    "too_many_tickets",
    "too_many_joins",
    "no_ticket",
    "unknown_voice",
    "grant_unknown",
    "no_cookie",
    "too_many_recordings",
    "recordings_full",
    "no_recordings",
    "bad_message",
    "draining",
    "server_fault",
)
RESUMES = ("resumed", "grant_unknown", "no_capacity", "server_fault")
VOICE_REFUSALS = (
    "no_consent",
    "no_cookie",
    "too_large",
    "too_slow",
    "too_many_voices",
    "too_many_uploads",
    "no_capacity",
    "draining",
    "clip_unreadable",
    "clip_slow",
    "clip_long",
    "clip_short",
    "clip_silent",
    "clip_overdriven",
    "clip_speechless",
    "clip_noisy",
    "server_fault",
)
HEARD_FATES = ("heard", "heard_dropped", "silence_filled", "spoken_dropped")
PACING_FATES = ("filled_packets", "torn", "shed_packets", "added_packets", "shed_speech_packets", "dropped_frames")
LOOP_REASONS = ("repeats", "silent")
LOOP_ACTIONS = ("steadied", "put_back")
ECHOES = ("leaks",)
COUNTED = (*HEARD_FATES, *PACING_FATES, *LOOP_REASONS, *LOOP_ACTIONS, *ECHOES)  # what a talk's counters may hold
# A tick's budget is one frame: 40 ms and 64 ms (0.5 and 0.8) are the median and the 99th percentile that we promise,
# 12.5 the second within which a stall is told, 125 a step that is given up.
FRAME_BUDGETS = (0.1, 0.2, 0.25, 0.5, 0.75, 0.8, 1.0, 1.25, 1.5, 2.0, 5.0, 12.5, 125.0)
TICK_BUCKETS_SECONDS = tuple(round(budget * FRAME_SECONDS, 4) for budget in FRAME_BUDGETS)
PRIME_BUCKETS_SECONDS = (0.05, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0, 120.0)
CONNECT_BUCKETS_SECONDS = (0.1, 0.3, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0)

# Every counter would bring a second series, with the time it began.
prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]


class Tick(Protocol):
    """What one engine step reports: how long it took, how many talks are live, how many of them it went by without."""

    @property
    def seconds(self) -> float: ...

    @property
    def talking(self) -> int: ...

    @property
    def missed(self) -> int: ...


def _gauge(words: str, default: int | None = None) -> Any:
    named = {"words": words}
    return field(metadata=named) if default is None else field(metadata=named, default=default)


@dataclass(frozen=True)
class Reading:
    """The gauges at one moment, each named as it is here; what was parked and lost is a total since the start."""

    slots: int = _gauge("Talks that can run at once.")
    slots_free: int = _gauge("Slots that nobody holds.")
    talks_live: int = _gauge("Talks that run.")
    tickets_waiting: int = _gauge("Visitors in line.")
    step_seconds: float = _gauge("The engine's latest step.")
    ready: bool = _gauge("1 while newcomers can be served.")
    parked_talks: int = _gauge("Talks that wait for their visitor to come back.", 0)
    parked_bytes: int = _gauge("Host memory that parked talks hold.", 0)
    parked_dropped: int = _gauge("Parked talks that were dropped for want of memory, since the start.", 0)
    parked_expired: int = _gauge("Parked talks that nobody took up in time, since the start.", 0)
    prompts_ready: int = _gauge("Prompts of the library that are read beforehand.", 0)
    recordings: int = _gauge("Recordings of talks that are in memory.", 0)
    recordings_bytes: int = _gauge("Host memory that their sound holds.", 0)


class Metrics:
    """All of it; each instance has a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        self._ticks = self._histogram("tick_seconds", "One engine step for all who talk.", TICK_BUCKETS_SECONDS)
        self._stepped = self._counter("stepped_frames", "Frames that went through the model, all talks together.")
        self._missed = self._counter("missed_frames", "Frames that were due for a talk which a step went by without.")
        self._sound = self._labelled("sound_frames", "Frames in the talks' queues, by fate.", "fate", HEARD_FATES)
        self._pacing = self._labelled("pacing", "Packets (20 ms) and frames of the output.", "fate", PACING_FATES)
        words = "Talks that went round in circles, or without a word though the visitor spoke."
        self._loops = self._labelled("loop_alarms", words, "reason", LOOP_REASONS)
        words = "Times that the loop guard steadied a talk's sampling, and put the visitor's back."
        self._guarded = self._labelled("loop_guard", words, "action", LOOP_ACTIONS)
        self._echoes = self._labelled("echo", "Times that a persona began to hear itself.", "event", ECHOES)
        self._started = self._labelled("talks_started", "Talks that had their first sound.", "path", PATHS)
        self._anew = self._counter("talks_started_over", "Talks that their visitor began anew in the same slot.")
        self._ended = self._labelled("talks_ended", "Talks that are over.", "code", ENDS)
        self._refused = self._labelled("refusals", "Asks, resumes and messages refused.", "code", REFUSALS)
        self._resumed = self._labelled("resumes", "Attempts to go on with a parked talk.", "outcome", RESUMES)
        self._voices = self._counter("voices_taken", "Voices that visitors brought and may talk with.")
        words = "Clips that became no voice."
        self._voices_refused = self._labelled("voices_refused", words, "code", VOICE_REFUSALS)
        self._prime = self._histogram("prime_seconds", "Reading a prompt, slot to talking.", PRIME_BUCKETS_SECONDS)
        self._previews = self._counter("previews_made", "Previews of voices that the model spoke.")
        self._connect = self._histogram("connect_seconds", "Admitted to first sound.", CONNECT_BUCKETS_SECONDS)

    def tick(self, report: Tick) -> None:
        """One step of the engine; the tick thread calls it."""
        self._ticks.observe(report.seconds)
        self._stepped.inc(max(0, report.talking - report.missed))
        self._missed.inc(report.missed)

    def connected(self, path: str, seconds: float, counters: Counts = None) -> TalkMeter:
        """Sound flows, `seconds` after the visitor was admitted; a resumed talk's `counters` are counted already."""
        self._started.labels(_known(path, PATHS)).inc()
        self._connect.observe(seconds)
        totals = {fate: self._sound for fate in HEARD_FATES} | {fate: self._pacing for fate in PACING_FATES}
        totals |= {reason: self._loops for reason in LOOP_REASONS} | {done: self._guarded for done in LOOP_ACTIONS}
        totals |= dict.fromkeys(ECHOES, self._echoes)
        return TalkMeter(totals, self._prime, self._ended, counters)

    def started_over(self) -> None:
        """A visitor began the talk anew."""
        self._anew.inc()

    def refused(self, code: str) -> None:
        """An ask, a resume or a message was refused."""
        self._refused.labels(_known(code, REFUSALS)).inc()

    def resumed(self, outcome: str) -> None:
        """Somebody came back with a grant: `resumed`, or the code of the refusal."""
        self._resumed.labels(_known(outcome, RESUMES)).inc()

    def preview_made(self) -> None:
        """The model spoke a voice's preview."""
        self._previews.inc()

    def voice_taken(self) -> None:
        """A visitor's clip became a voice."""
        self._voices.inc()

    def voice_refused(self, code: str) -> None:
        """A visitor's clip became none."""
        self._voices_refused.labels(_known(code, VOICE_REFUSALS)).inc()

    def watch(self, read: Callable[[], Reading]) -> None:
        """The gauges are read by this function at every scrape; once per instance."""
        self.registry.register(_Gauges(read))

    def render(self) -> tuple[bytes, str]:
        """The text of now and its content type."""
        return prometheus.generate_latest(self.registry), prometheus.CONTENT_TYPE_LATEST

    def _counter(self, name: str, words: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", words, registry=self.registry)

    def _labelled(self, name: str, words: str, label: str, values: Iterable[str]) -> Counter:
        counter = Counter(f"{PREFIX}_{name}", words, [label], registry=self.registry)
        for value in (*values, OTHER):
            counter.labels(value)  # there from the start, at 0
        return counter

    def _histogram(self, name: str, words: str, buckets: Iterable[float]) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", words, buckets=tuple(buckets), registry=self.registry)


class TalkMeter:
    """One talk's counters on their way into the totals: each note adds what came since the one before."""

    def __init__(
        self, totals: Mapping[str, Counter], prime: Histogram, ended: Counter, counters: Counts = None
    ) -> None:
        self._totals = totals
        self._seen = _counts(counters)
        self._prime, self._ended = prime, ended
        self._primed = self._over = False

    def primed(self, seconds: float) -> None:
        """Its prompt was read in so long; counted once, and not before (0)."""
        if seconds > 0 and not self._primed:
            self._primed = True
            self._prime.observe(seconds)

    def note(self, *counters: Counts) -> None:
        """A session's counters, its output's, or both; those that have become less began anew, from 0."""
        for given in counters:
            for fate, now in _counts(given).items():
                before = self._seen.get(fate, 0)
                self._totals[fate].labels(fate).inc(now - before if now >= before else now)
                self._seen[fate] = now

    def begin_anew(self, counters: Counts) -> None:
        """The talk was started over: these are its counters from now on, and another prompt is read."""
        self._seen |= _counts(counters)
        self._primed = False

    def ended(self, code: str, *counters: Counts) -> None:
        """The talk is over, counted once however often it is said."""
        self.note(*counters)
        if not self._over:
            self._over = True
            self._ended.labels(_known(code, ENDS)).inc()


class _Gauges(Collector):
    """What is true at the moment of the scrape."""

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        now = self._read()
        for gauge in fields(now):
            yield GaugeMetricFamily(f"{PREFIX}_{gauge.name}", gauge.metadata["words"], float(getattr(now, gauge.name)))


def _counts(counters: Counts) -> dict[str, int]:
    """What these counters know of it."""
    named = counters if isinstance(counters, Mapping) else getattr(counters, "__dict__", {})
    return {fate: named[fate] for fate in COUNTED if fate in named}


def _known(label: str, values: tuple[str, ...]) -> str:
    return label if label in values else OTHER
