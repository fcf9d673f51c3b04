"""The metrics count what they are told, once, under labels that no client chooses."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from personaplex_app import metrics as metrics_module
from personaplex_app.audio import FRAME_SECONDS
from personaplex_app.engine.session import Counters
from personaplex_app.metrics import (
    ENDS,
    LOOP_ACTIONS,
    LOOP_REASONS,
    PATHS,
    REFUSALS,
    RESUMES,
    TICK_BUCKETS_SECONDS,
    VOICE_REFUSALS,
    Metrics,
    Reading,
)
from personaplex_app.web.pacing import PacingCounters

ROOM = Reading(slots=2, slots_free=1, talks_live=1, tickets_waiting=0, step_seconds=0.015, ready=True)


@dataclass(frozen=True)
class Report:
    seconds: float
    talking: int = 1
    missed: int = 0


def scraped(metrics: Metrics) -> dict[str, float]:
    """Every sample of the text, by `name` or `name{label}`; parsed as Prometheus parses it."""
    text, kind = metrics.render()
    assert kind.startswith("text/plain")
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            words = ",".join(sample.labels.values())
            name = sample.name.removeprefix("personaplex_")
            found[f"{name}{{{words}}}" if words else name] = sample.value
    return found


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_a_tick_falls_into_the_bucket_of_its_frame_budget(metrics: Metrics) -> None:
    for budget in (0.4, 0.79, 0.81, 3.0):
        metrics.tick(Report(budget * FRAME_SECONDS, talking=2, missed=1))
    seen = scraped(metrics)
    buckets = [seen[f"tick_seconds_bucket{{{bound}}}"] for bound in (0.02, 0.04, 0.064, 0.08, 0.16, 0.4)]
    assert buckets == [0, 1, 2, 3, 3, 4]
    assert seen["tick_seconds_count"] == 4 and seen["tick_seconds_sum"] == pytest.approx(5 * FRAME_SECONDS)
    assert (seen["stepped_frames_total"], seen["missed_frames_total"]) == (4, 4)


def test_the_buckets_hold_the_figures_that_we_promise() -> None:
    assert {0.04, 0.064, FRAME_SECONDS, 1.0, 10.0} <= set(TICK_BUCKETS_SECONDS)
    assert list(TICK_BUCKETS_SECONDS) == sorted(TICK_BUCKETS_SECONDS)


def test_every_label_stands_at_zero_before_anything_happened(metrics: Metrics) -> None:
    seen = scraped(metrics)
    stated = {
        "talks_started": PATHS,
        "talks_ended": ENDS,
        "refusals": REFUSALS,
        "resumes": RESUMES,
        "voices_refused": VOICE_REFUSALS,
        "loop_alarms": LOOP_REASONS,
        "loop_guard": LOOP_ACTIONS,
    }
    for name, labels in stated.items():
        assert [seen[f"{name}_total{{{label}}}"] for label in (*labels, "other")] == [0.0] * (len(labels) + 1)


def test_a_word_that_stands_in_no_list_is_other(metrics: Metrics) -> None:
    hostile = 'x"} 1\npersonaplex_slots 99'
    before = set(scraped(metrics))
    metrics.refused(hostile)
    metrics.resumed(hostile)
    metrics.voice_refused(hostile)
    metrics.connected(hostile, 0.1).ended(hostile)
    after = scraped(metrics)
    assert set(after) == before, "no label of a client's making"
    for name in ("refusals", "resumes", "voices_refused", "talks_started", "talks_ended"):
        assert after[f"{name}_total{{other}}"] == 1


def test_a_talk_that_is_started_over_is_counted_from_naught_again(metrics: Metrics) -> None:
    talk = metrics.connected("socket", 0.2)
    talk.primed(0.3)
    talk.note(Counters(heard=10), PacingCounters(filled_packets=3))
    metrics.started_over()
    talk.begin_anew(Counters())
    talk.primed(0.2)
    talk.note(Counters(heard=12), PacingCounters(filled_packets=4))
    seen = scraped(metrics)
    assert seen["sound_frames_total{heard}"] == 22 and seen["pacing_total{filled_packets}"] == 4
    assert (seen["talks_started_over_total"], seen["prime_seconds_count"]) == (1, 2)
    assert seen["talks_started_total{socket}"] == 1


def test_voices_are_counted_and_why_there_were_none(metrics: Metrics) -> None:
    for _ in range(3):
        metrics.voice_taken()
    metrics.voice_refused("clip_noisy")
    seen = scraped(metrics)
    assert (seen["voices_taken_total"], seen["voices_refused_total{clip_noisy}"]) == (3, 1)


def test_every_reason_to_take_no_voice_has_a_label() -> None:
    package = Path(metrics_module.__file__).parent
    files = ("clip_decoder", "clip_reader", "voice_clip", "web/clip_door", "web/own_voice_routes", "web/own_voices")
    text = "".join((package / f"{name}.py").read_text() for name in files)
    codes = set(re.findall(r"""(?:code=|UNREADABLE = )"(\w+)\"""", text)) - {"unknown_voice"}
    assert codes | {"no_capacity", "server_fault"} == set(VOICE_REFUSALS)


def test_a_talk_s_counters_are_added_as_they_grow_and_never_twice(metrics: Metrics) -> None:
    talk = metrics.connected("socket", 0.2)
    frames, pacing = Counters(heard=10, heard_dropped=2), PacingCounters(filled_packets=3)
    talk.note(frames, pacing)
    talk.note(frames, pacing)
    frames.heard, frames.silence_filled, pacing.torn = 15, 1, 4
    talk.ended("idle", frames, pacing)
    talk.ended("stopped", frames, pacing)
    seen = scraped(metrics)
    assert [seen[f"sound_frames_total{{{fate}}}"] for fate in ("heard", "heard_dropped", "silence_filled")] == [
        15,
        2,
        1,
    ]
    assert [seen[f"pacing_total{{{fate}}}"] for fate in ("filled_packets", "torn")] == [3, 4]
    assert seen["talks_ended_total{idle}"] == 1 and seen["talks_ended_total{stopped}"] == 0
    assert seen["talks_started_total{socket}"] == 1


def test_a_resumed_talk_counts_on_from_where_it_was(metrics: Metrics) -> None:
    frames = Counters(heard=100)
    metrics.connected("webrtc", 0.2).ended("lost", frames)
    again = metrics.connected("socket", 0.2, vars(replace(frames)))
    frames.heard = 130
    again.ended("stopped", frames)
    assert scraped(metrics)["sound_frames_total{heard}"] == 130


def test_the_loop_guard_s_alarms_are_counted_by_reason_and_what_it_did_by_name(metrics: Metrics) -> None:
    talk = metrics.connected("socket", 0.2, Counters(repeats=1, steadied=1, put_back=1))
    talk.note(Counters(repeats=3, silent=1, steadied=3, put_back=2))
    seen = scraped(metrics)
    assert (seen["loop_alarms_total{repeats}"], seen["loop_alarms_total{silent}"]) == (2, 1), "since it was resumed"
    assert (seen["loop_guard_total{steadied}"], seen["loop_guard_total{put_back}"]) == (2, 1)


def test_counters_that_begin_anew_count_from_zero(metrics: Metrics) -> None:
    talk = metrics.connected("webrtc", 0.2)
    talk.note(PacingCounters(filled_packets=50))
    talk.note(PacingCounters(filled_packets=8))
    assert scraped(metrics)["pacing_total{filled_packets}"] == 58


def test_the_fates_are_the_counters_own_names() -> None:
    assert set(metrics_module.HEARD_FATES) < {field.name for field in fields(Counters)}
    assert {*LOOP_REASONS, *LOOP_ACTIONS} < {field.name for field in fields(Counters)}
    assert set(metrics_module.PACING_FATES) == {field.name for field in fields(PacingCounters)} - {"prebuffer_ms"}


def test_the_way_to_the_first_sound_and_the_prompt_are_counted_once_a_talk(metrics: Metrics) -> None:
    talk = metrics.connected("webrtc", 0.25)
    talk.primed(0.0)  # not yet
    assert scraped(metrics)["prime_seconds_count"] == 0
    for _ in range(3):
        talk.primed(0.06)
    seen = scraped(metrics)
    assert (seen["connect_seconds_count"], seen["prime_seconds_count"]) == (1, 1)
    assert seen["connect_seconds_bucket{0.3}"] == 1 and seen["prime_seconds_bucket{0.05}"] == 0
    assert seen["prime_seconds_sum"] == pytest.approx(0.06)


def test_the_gauges_are_read_when_somebody_looks(metrics: Metrics) -> None:
    now = [ROOM]
    metrics.watch(lambda: now[0])
    assert scraped(metrics)["ready"] == 1
    now[0] = replace(ROOM, slots_free=0, talks_live=2, tickets_waiting=3, ready=False, parked_talks=1, parked_bytes=512)
    seen = scraped(metrics)
    for name, value in {"slots": 2, "slots_free": 0, "talks_live": 2, "tickets_waiting": 3, "ready": 0}.items():
        assert seen[name] == value
    assert (seen["parked_talks"], seen["parked_bytes"], seen["step_seconds"]) == (1, 512, 0.015)


def test_two_of_them_do_not_meet(metrics: Metrics) -> None:
    other = Metrics()
    for each in (metrics, other):
        each.watch(lambda: ROOM)
    metrics.refused("no_capacity")
    assert scraped(other)["refusals_total{no_capacity}"] == 0


def test_every_name_says_what_it_is_and_no_counter_stands_twice(metrics: Metrics) -> None:
    metrics.watch(lambda: ROOM)
    lines = metrics.render()[0].decode().splitlines()
    named = {line.split()[2] for line in lines if line.startswith("# TYPE personaplex_")}
    told = {line.split()[2] for line in lines if line.startswith("# HELP personaplex_") and len(line.split()) > 4}
    assert len(named) > 15 and named == told
    assert not [name for name in named if name.endswith("_created")]


def test_it_shows_the_process_s_memory(metrics: Metrics) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("no /proc here")
    assert scraped(metrics)["process_resident_memory_bytes"] > 1e6


def test_previews_and_prompts_that_are_ready_are_told(metrics: Metrics) -> None:
    metrics.watch(lambda: replace(ROOM, prompts_ready=7))
    assert scraped(metrics)["previews_made_total"] == 0
    metrics.preview_made()
    assert (scraped(metrics)["previews_made_total"], scraped(metrics)["prompts_ready"]) == (1, 7)
