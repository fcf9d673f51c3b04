"""The verdict on a talk, as the page's scripts give it: whose fault it is, by figures, and that it does not flap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Page
from support.sound_page import sound_page

WELL = {
    "step_ms": 12.0,
    "stalled": False,
    "lost_up": 0.0,
    "lost_down": 0.0,
    "unsent_ms": 0.0,
    "round_trip_ms": 30.0,
    "held_ms": 1010.0,
    "given": 1.0,
    "unheard": 0.0,
    "overrun": 0.0,
    "made": 1.0,
    "gaps": 0.0,
    "silent_ms": 500.0,
    "microphone": "live",
    "awake": True,
}
NOBODY_KNOWS = dict.fromkeys(WELL, None)
JUDGE = "([figures, before]) => import('/verdict.js').then(({ judge }) => judge(figures, before ?? undefined))"
SAW = """(looks) => import('/verdict.js').then(({ Verdicts }) => {
  const verdicts = new Verdicts();
  return looks.map((figures) => verdicts.saw(figures)?.what ?? "");
})"""
FIGURES = "(samples) => import('/figures.js').then(({ figuresOf }) => figuresOf(samples))"
WINDOW = """(samples) => import('/figures.js').then(({ Window }) => {
  const window = new Window();
  samples.forEach((sample) => window.add(sample));
  return [window.samples.length, window.long];
})"""

HELD = """(samples) => import('/figures.js').then(({ Window }) => {
  const window = new Window();
  samples.forEach((sample) => window.add(sample));
  return window.heldMs;
})"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    wav = tmp_path_factory.mktemp("sound") / "silence.wav"
    soundfile.write(wav, np.zeros(24_000, dtype=np.float32), 24_000)
    with sound_page(wav) as page:
        yield page


def judged(page: Page, before: dict[str, Any] | None = None, **figures: Any) -> tuple[str, str]:
    found = page.evaluate(JUDGE, [{**WELL, **figures}, before])
    return found["who"], found["what"]


@pytest.mark.parametrize(
    ("figures", "who", "what"),
    [
        ({}, "well", "well"),
        ({"step_ms": 79.0}, "well", "well"),
        ({"step_ms": 120.0}, "gpu", "slow"),
        ({"stalled": True}, "gpu", "stalled"),
        ({"lost_up": 0.06}, "network", "loss"),
        ({"lost_down": 0.06}, "network", "loss"),
        ({"lost_down": 0.02}, "well", "well"),
        ({"round_trip_ms": 600.0}, "network", "round_trip"),
        ({"unsent_ms": 290.0}, "network", "unsent"),
        ({"gaps": 0.2}, "network", "gaps"),
        ({"unheard": 0.2}, "network", "unheard"),
        ({"made": 0.7}, "network", "unheard"),
        ({"silent_ms": 6000.0}, "network", "silent"),
        ({"given": 0.6}, "browser", "given"),
        ({"given": 0.6, "unheard": 0.3, "made": 0.7, "gaps": 0.3}, "browser", "given"),
        ({"held_ms": 5000.0, "gaps": 0.2}, "browser", "held"),
        ({"held_ms": 5000.0, "unheard": 0.3}, "browser", "held"),
        ({"held_ms": 5000.0}, "well", "well"),
        ({"awake": False, "given": 0.0}, "browser", "asleep"),
        ({"microphone": "muted"}, "browser", "microphone_muted"),
        ({"microphone": "ended", "unheard": 1.0}, "browser", "microphone_ended"),
        # What follows from a slow engine is not blamed on the network, nor the other way round.
        ({"step_ms": 120.0, "made": 0.66, "gaps": 0.3, "unheard": 0.1}, "gpu", "slow"),
        ({"lost_up": 0.2, "made": 0.7, "unheard": 0.3, "gaps": 0.3}, "network", "loss"),
        # A busy server whose step is short enough most of the time: it leaves out what came, on a wire that is well.
        ({"step_ms": 63.0, "overrun": 0.28, "made": 0.72}, "gpu", "behind"),
        ({"step_ms": 72.0, "overrun": 0.28, "made": 0.75, "unheard": 0.3, "gaps": 0.2}, "gpu", "behind"),
        ({"step_ms": 20.0, "overrun": 0.2, "made": 0.8, "unheard": 0.05}, "gpu", "behind"),
        ({"step_ms": 72.0, "overrun": 0.2, "made": 0.8, "round_trip_ms": 600.0}, "gpu", "behind"),
        ({"step_ms": 72.0, "overrun": 0.02}, "well", "well"),
        # A network that holds sound back and then brings too much at once: silence first, and as many frames as ever.
        ({"step_ms": 20.0, "overrun": 0.2, "unheard": 0.25}, "network", "unheard"),
        ({"step_ms": 20.0, "overrun": 0.3, "unheard": 0.1, "made": 1.02}, "network", "unheard"),
        ({"step_ms": 72.0, "unheard": 0.2}, "network", "unheard"),
        ({"step_ms": 72.0, "gaps": 0.2}, "network", "gaps"),
        ({"step_ms": 72.0, "overrun": 0.2, "lost_up": 0.1}, "network", "loss"),
        ({"step_ms": 72.0, "overrun": 0.2, "unsent_ms": 290.0}, "network", "unsent"),
    ],
)
def test_whose_fault_it_is(page: Page, figures: dict[str, Any], who: str, what: str) -> None:
    assert judged(page, **figures) == (who, what)


def test_where_nobody_knows_anything_all_is_well(page: Page) -> None:
    assert judged(page, **NOBODY_KNOWS) == ("well", "well")


def test_the_numbers_of_a_sentence_are_whole(page: Page) -> None:
    found = page.evaluate(JUDGE, [{**WELL, "lost_up": 0.0567}, None])
    assert found == {"who": "network", "what": "loss", "percent": 6}
    assert page.evaluate(JUDGE, [{**WELL, "step_ms": 119.7}, None])["ms"] == 120


@pytest.mark.parametrize(
    ("what", "figures"),
    [
        ("loss", {"lost_up": 0.025}),
        ("slow", {"step_ms": 78.0}),
        ("round_trip", {"round_trip_ms": 300.0}),
        ("behind", {"step_ms": 70.0, "overrun": 0.04, "made": 0.96}),
    ],
)
def test_a_trouble_that_is_told_is_over_only_where_it_clearly_is(page: Page, what: str, figures: Any) -> None:
    assert judged(page, **figures) == ("well", "well")
    assert judged(page, {"who": "?", "what": what}, **figures)[1] == what


def test_it_does_not_flap(page: Page) -> None:
    well, lossy, slow = WELL, {**WELL, "lost_up": 0.1}, {**WELL, "step_ms": 120.0}

    def told(*looks: Any) -> list[str]:
        return list(page.evaluate(SAW, list(looks)))

    assert told(well, well) == ["well", "well"], "at first at once"
    assert told(well, lossy, well, lossy, well, lossy) == ["well"] * 6, "one bad look is nothing"
    assert told(well, *[lossy] * 3, *[well] * 5)[1:] == ["well", "well", "loss", "loss", "loss", "loss", "loss", "well"]
    assert told(lossy, lossy, lossy) == ["", "", "loss"], "a trouble from the beginning waits for three looks"
    assert told(*[slow] * 3, lossy, slow, lossy, lossy, lossy)[2:] == ["slow"] * 5 + ["loss"]


def test_figures_are_what_came_between_the_first_look_and_the_last(page: Page) -> None:
    first = {
        **dict.fromkeys(("player_ms", "gap_ms", "unsent_ms", "jitter_ms", "awake"), None),
        "at": 10_000.0,
        "told_at": 9_900.0,
        "path": "webrtc",
        "step_ms": 30.0,
        "stalled": False,
        "heard_ms": 80,
        "spoken_ms": 40,
        "frames": 100,
        "dropped": 7,
        "unsent": 1,
        "missed": 2,
        "filled": 5,
        "late_ms": 400,
        "up_sent": 500,
        "up_lost": 50,
        "down_received": 480,
        "down_lost": 20,
        "given_ms": 10_000,
        "buffered_ms": 1_000_000.0,
        "buffer_left": 10_000,
        "round_trip_ms": 20.0,
        "silent_ms": 100.0,
        "microphone": "live",
    }
    last = {
        **first,
        "at": 15_000.0,
        "told_at": 14_900.0,
        "frames": 162,
        "dropped": 9,
        "filled": 5,
        "up_sent": 750,
        "up_lost": 60,
        "down_received": 720,
        "down_lost": 30,
        "given_ms": 14_900,
        "buffered_ms": 13_000_000.0,
        "buffer_left": 250_000,
        "round_trip_ms": 40.0,
    }
    found = page.evaluate(FIGURES, [first, {**first, "at": 12_000.0, "round_trip_ms": None}, last])
    assert (found["dropped"], found["missed"], found["unheard"], found["late_ms"]) == (2, 0, 0, 0)
    assert found["overrun"] == pytest.approx(2 / 64)
    assert (found["lost_up"], found["lost_down"]) == (0.04, 0.04)
    assert found["made"] == pytest.approx(0.992) and found["given"] == pytest.approx(0.98)
    assert found["player_ms"] == pytest.approx(50) and found["queue_ms"] == pytest.approx(170)
    assert found["round_trip_ms"] == 40.0 and found["gaps"] is None and found["unsent_ms"] is None
    assert page.evaluate(JUDGE, [found, None])["what"] == "loss"


def test_looks_of_another_way_or_another_talk_are_not_compared(page: Page) -> None:
    def kept(*looks: tuple[float, str, int]) -> list[float]:
        samples = [{"at": at, "path": path, "frames": frames} for at, path, frames in looks]
        return list(page.evaluate(WINDOW, samples))

    assert kept((0, "webrtc", 0), (1000, "webrtc", 12)) == [2, 1000]
    assert kept((0, "webrtc", 0), (1000, "socket", 12)) == [1, 0]
    assert kept((0, "webrtc", 90), (1000, "webrtc", 3), (2000, "webrtc", 15)) == [2, 1000]
    assert kept(*((1000.0 * k, "webrtc", 12 * k) for k in range(20))) == [7, 6000]


def test_a_page_that_stood_still_is_remembered_until_nothing_bears_its_marks(page: Page) -> None:
    def held_ms(*at: float) -> float:
        samples = [{"at": one, "path": "webrtc", "frames": int(one)} for one in at]
        return float(page.evaluate(HELD, samples))

    assert held_ms(0, 1000, 2100) == 0
    assert held_ms(0, 1000, 4000) == 3000 and held_ms(0, 3000, 8000) == 5000
    assert held_ms(0, 3000, *range(4000, 11_001, 1000)) == 3000
    assert held_ms(0, 3000, *range(4000, 12_001, 1000)) == 0


def test_every_verdict_has_a_sentence() -> None:
    static = Path(__file__).parents[2] / "personaplex_app" / "web" / "static"
    health, verdict = (static / "health.js").read_text(), (static / "verdict.js").read_text()
    named = {part.partition('"')[0] for part in verdict.split('what: "')[1:]} | {"microphone_muted", "microphone_ended"}
    assert len(named) > 10 and all(f"  {what}: (" in health for what in named)
