"""The socket path's sound in a real browser: no drift, no click, little delay after stalls, what is said comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from playwright.sync_api import Error, Page
from support.paced import arrivals_ms
from support.signals import aligned_correlation, best_correlation
from support.sound_page import Played, floats, loop_back, play_through, sound_page

from personaplex_app.audio import FRAME_MS, SAMPLE_RATE_HZ, Pcm

HZ = 440.0
TONE_JUMP = 0.3 * 2 * np.pi * HZ / SAMPLE_RATE_HZ
FADED_JUMP = TONE_JUMP + 0.6 / 120  # a fade of 5 ms between two extremes adds this
MOST_MS = 160 + FRAME_MS
TONE = [True]
TALK = [False] * 12 + [True] * 30
SECONDS = 3.5
ATTEMPTS = 3  # a shared machine may be busy with something else for a while


@pytest.fixture(scope="module")
def voice() -> Pcm:
    """Four seconds that resemble nothing but themselves: noise as high as a voice, louder and softer."""
    random = np.random.default_rng(2)
    spectrum = np.fft.rfft(random.standard_normal(4 * SAMPLE_RATE_HZ))
    at_hz = np.fft.rfftfreq(4 * SAMPLE_RATE_HZ, 1 / SAMPLE_RATE_HZ)
    noise = np.fft.irfft(np.where((at_hz > 200) & (at_hz < 3400), spectrum, 0))
    loudness = np.interp(np.arange(4 * SAMPLE_RATE_HZ), np.arange(40) * 2400, random.uniform(0, 1, 40) ** 2)
    return (0.3 * noise * loudness / np.abs(noise).std()).clip(-0.9, 0.9).astype(np.float32)


@pytest.fixture(scope="module")
def page(voice: Pcm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    wav: Path = tmp_path_factory.mktemp("sound") / "voice.wav"
    soundfile.write(wav, voice, SAMPLE_RATE_HZ)
    with sound_page(wav) as page:
        yield page


RESAMPLED = """
({from, to, hz, sizes}) => {
  const resampler = new personaplexResampler(from, to);
  const made = [];
  for (let at = 0, turn = 0; at < from / 2; turn += 1) {
    const piece = new Float32Array(sizes[turn % sizes.length]);
    for (let k = 0; k < piece.length; k += 1) piece[k] = Math.sin(2 * Math.PI * hz * (at + k) / from);
    at += piece.length;
    made.push(...resampler.push(piece));
  }
  return bytesOf(Float32Array.from(made));
}
"""


def _resampled(page: Page, from_hz: int, to_hz: int, hz: float, sizes: list[int]) -> Pcm:
    return floats(page.evaluate(RESAMPLED, {"from": from_hz, "to": to_hz, "hz": hz, "sizes": sizes}))


def _loudness_db(pcm: Pcm, skip: int = 1000) -> float:
    return float(20 * np.log10(np.sqrt(2 * np.mean(np.square(pcm[skip:])))))


@pytest.mark.parametrize(
    "rates", [(48_000, 24_000), (44_100, 24_000), (16_000, 24_000), (24_000, 48_000), (24_000, 44_100)]
)
def test_another_rate_keeps_the_voice_and_folds_nothing_over_it(page: Page, rates: tuple[int, int]) -> None:
    whole = _resampled(page, *rates, 1000.0, [128])
    pieces = _resampled(page, *rates, 1000.0, [1, 128, 7, 300])
    count = min(len(whole), len(pieces))
    assert count == pytest.approx(rates[1] / 2, abs=400) and np.array_equal(whole[:count], pieces[:count])
    for hz in (100.0, 1000.0, 6000.0, min(9400.0, 0.39 * rates[0])):
        assert abs(_loudness_db(_resampled(page, *rates, hz, [128]))) < 0.1
    spectrum = np.abs(np.fft.rfft(whole[1000:] * np.hanning(count - 1000)[: len(whole) - 1000]))
    at_hz = np.fft.rfftfreq(len(whole[1000:]), 1 / rates[1])
    elsewhere = spectrum[np.abs(at_hz - 1000) > 100].max()
    assert elsewhere < spectrum.max() * 10 ** (-70 / 20), "images"
    for hz in (12_500.0, 15_000.0, 20_000.0):
        if rates[1] / 2 < hz < rates[0] / 2:
            assert _loudness_db(_resampled(page, *rates, hz, [128])) < -75, "aliases"


def _steady(seconds: float, period_ms: float = FRAME_MS) -> list[float]:
    return [period_ms * index for index in range(int(1000 * seconds / period_ms))]


def test_half_a_minute_of_tone_is_played_as_it_came(page: Page) -> None:
    played = play_through(page, _steady(30), TONE, 30, HZ, keep=True)
    begin, fade = 480, 120  # the prebuffer of 20 ms, and 5 ms
    at = np.arange(len(played.heard) - begin) / SAMPLE_RATE_HZ
    tone = 0.3 * np.sin(2 * np.pi * HZ * at)
    assert not played.heard[:begin].any()
    assert np.allclose(played.heard[begin + fade :], tone[fade:], atol=1e-5)
    assert played.jump <= TONE_JUMP * 1.001
    assert [played.counted[name] for name in ("torn", "shed", "added", "dropped")] == [0, 0, 0, 0]
    assert played.report["waiting_ms"] <= 20 + FRAME_MS and played.report["level"] == pytest.approx(0.212, abs=0.002)


def _stalled(kept: int) -> tuple[list[float], list[float]]:
    """Frames of ten seconds of which those from 3 s to 5 s come at 5 s, only the last ones; and their own times."""
    own = _steady(10)
    stalled = [at for at in own if 3_000 <= at < 5_000]
    lost = stalled[: len(stalled) - kept]
    own = [at for at in own if at not in lost]
    return [5_000.0 if at in stalled else at for at in own], own


@pytest.mark.parametrize("kept", [25, 7, 0], ids=["all at once", "seven frames", "nothing"])
@pytest.mark.parametrize("loud", [TONE, TALK], ids=["tone", "talk"])
def test_a_second_after_a_stall_of_two_the_delay_is_back(page: Page, kept: int, loud: list[bool]) -> None:
    times, _ = _stalled(kept)
    played = play_through(page, times, loud, 10, HZ)
    after = played.waits_ms[np.array(times) >= 5_500]
    assert after.max() <= 160 and after[-1] <= 100
    assert played.longest_ms <= MOST_MS and (loud != TONE or played.jump <= FADED_JUMP)
    assert played.report["filled"] >= 90 and played.report["torn"] == 1
    _assert_all_is_counted(played)


def _assert_all_is_counted(played: Played) -> None:
    counted = played.counted
    sounding_ms = (
        len(played.waits_ms) * FRAME_MS + counted["added"] - counted["shed"] - counted["dropped"] - counted["played"]
    )
    assert -0.001 <= played.report["waiting_ms"] - sounding_ms <= 20.001, "but for silence that is held before it"


def test_silence_is_shed_before_speech(page: Page) -> None:
    times = [*_steady(2), *[2_000.0] * 3, *[2_080.0 + at for at in _steady(2)]]
    loud = [True] * 25 + [False, False, True] + [True] * 25
    played = play_through(page, times, loud, 4.0, HZ)
    assert played.counted["shed"] == pytest.approx(150, abs=1) and played.counted["dropped"] == 0
    assert played.waits_ms[-1] <= 40
    _assert_all_is_counted(played)


SKEWED = {"tone, 100 ppm": (TONE, 79.992), "tone": (TONE, 80.1), "talk, 100 ppm": (TALK, 80.008), "talk": (TALK, 79.9)}


@pytest.mark.parametrize(("loud", "period_ms"), SKEWED.values(), ids=SKEWED)
def test_ten_minutes_without_drift(page: Page, loud: list[bool], period_ms: float) -> None:
    """Two clocks 100 ppm apart, or twelve times that, frames that come late, and two stalls."""
    stalls = {200_000.0: 202_000.0, 400_000.0: 400_300.0}
    times = arrivals_ms(int(600_000 / period_ms), period_ms, 4.0, stalls, 3)
    played = play_through(page, times, loud, 600, HZ)
    at = np.array(times)[: len(played.waits_ms)]
    assert abs(np.polyfit(at / 60_000, played.waits_ms, 1)[0]) <= 1.0
    last = played.waits_ms[at >= 540_000]
    assert np.mean(last) <= 60 and np.percentile(last, 99) <= 100 and played.longest_ms <= MOST_MS
    for end in stalls.values():
        assert played.waits_ms[(at >= end + 1_000) & (at < end + 3_000)].max() <= 160
    assert 20 <= played.report["prebuffer_ms"] <= 120 and (loud != TONE or played.jump <= FADED_JUMP)
    _assert_all_is_counted(played)


def test_the_prebuffer_grows_with_tears_to_its_bound_and_shrinks_in_calm(page: Page) -> None:
    late = [at + (110 if index % 12 == 0 else 0) * (1 + index // 60) for index, at in enumerate(_steady(30))]
    torn = play_through(page, list(np.maximum.accumulate(late)), TONE, 30, HZ)
    assert torn.report["torn"] >= 5 and torn.report["prebuffer_ms"] == 120
    calm = [*np.maximum.accumulate(late), *[30_000 + at for at in _steady(70)]]
    assert play_through(page, calm, TALK, 100, HZ).report["prebuffer_ms"] == 20


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_little_waits_and_nothing_clicks(page: Page, seed: int) -> None:
    random = np.random.default_rng(seed)
    times = list(np.sort(random.choice(60_000, 700, replace=True) // random.choice([1, 500]) * 1.0) * 1.0)
    played = play_through(page, times, TONE, 61, HZ)
    assert played.longest_ms <= MOST_MS and played.jump <= FADED_JUMP
    _assert_all_is_counted(played)


def _resemblance(part: Pcm, whole: Pcm) -> float:
    """The best correlation of the part with any place of the whole, which goes round."""
    size = len(part) + len(whole)
    twice = np.concatenate([whole, whole[: len(part)]])
    product = np.fft.irfft(np.fft.rfft(twice, size) * np.conj(np.fft.rfft(part, size)), size)[: len(whole)]
    power = np.concatenate([[0.0], np.cumsum(np.square(twice, dtype=np.float64))])
    energy = np.sqrt((power[len(part) : len(part) + len(whole)] - power[: len(whole)]) * np.sum(part**2))
    return float(np.max(product / energy))


@pytest.mark.timed
@pytest.mark.parametrize("only_rate_hz", [0, 44_100], ids=["24 kHz", "as in Firefox"])
def test_what_is_said_comes_back(page: Page, voice: Pcm, only_rate_hz: int) -> None:
    found = []
    for _ in range(ATTEMPTS):
        got = loop_back(page, SECONDS, only_rate_hz)
        _assert_sound(got, only_rate_hz)
        tail = 2 * got["rate"]
        said, heard = got["said"][-tail:], got["heard"][-tail:]
        _, delay_ms = aligned_correlation(said, heard, got["rate"])
        correlation = best_correlation(said, heard, got["rate"], 0.5)  # a busy machine loses a buffer now and then
        sent = _resemblance(got["sent"][-24_000:-4_800], voice)
        found.append((correlation, delay_ms, sent, got["reports"][-1]))
        if correlation > 0.9 and sent > 0.95 and delay_ms < 250:
            return
    pytest.fail(f"correlation, delay in ms, correlation of what was sent, report: {found}")


def _assert_sound(got: dict[str, Any], only_rate_hz: int) -> None:
    assert got["rate"] == (only_rate_hz or SAMPLE_RATE_HZ) and got["running"] and got["sizes"] == [480]
    assert (got["open"], got["live"]) == (0, 0), "the context is closed and the microphone given back"
    assert len(got["sent"]) == pytest.approx(SECONDS * SAMPLE_RATE_HZ, rel=0.15)
    report = got["reports"][-1]
    assert 12 <= len(got["reports"]) <= 25 and report["played"] > 120 and report["waiting_ms"] <= MOST_MS
    assert report["microphone_level"] > 0.01


@pytest.mark.timed
def test_a_muted_microphone_sends_silence_at_the_same_pace(page: Page) -> None:
    got = loop_back(page, 0.6, muted_seconds=1.0)
    after = got["sent"][(got["spoken"] + 10) * 480 :]
    assert len(after) > 10_000 and not after.any() and got["sent"][: got["spoken"] * 480].any()


REFUSED = """
async (wish) => {
  try {
    await personaplexSound.start({send() {}, ...wish});
    return 'started';
  } catch (error) {
    const live = tap.streams.flatMap((stream) => stream.getTracks()).filter((track) => track.readyState === 'live');
    return `${error.name} ${live.length}`;
  }
}
"""


def test_refusals_come_through_unchanged_and_leave_nothing_open(page: Page) -> None:
    nobody = {"constraints": {"audio": {"deviceId": {"exact": "nobody"}}}}
    assert page.evaluate(REFUSED, nobody) == "OverconstrainedError 0"
    assert page.evaluate(REFUSED, {"constraints": {"audio": True}, "base": "/nowhere"}) == "AbortError 0"
    assert page.evaluate("() => tap.contexts.filter((context) => context.state !== 'closed').length") == 0
    page.evaluate("() => Object.defineProperty(navigator, 'mediaDevices', {value: undefined, configurable: true})")
    with pytest.raises(Error, match="needs a secure page"):
        page.evaluate("() => personaplexSound.start({constraints: {audio: true}, send() {}})")
    page.evaluate("() => { delete navigator.mediaDevices; }")
