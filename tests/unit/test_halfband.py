"""Between 48 and 24 kHz: speech survives unchanged, nothing folds down, pieces make no seam, and it costs no time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm
from personaplex_app.halfband import TAPS, DoubleRate, HalveRate

WIRE_HZ = 2 * SAMPLE_RATE_HZ
SETTLED = 4 * TAPS
Filter = HalveRate | DoubleRate


def _sine(hz: float, rate_hz: int, samples: int) -> Pcm:
    return np.sin(2 * np.pi * hz * np.arange(samples) / rate_hz).astype(np.float32)


def _level(pcm: Pcm) -> float:
    """Of a sine's steady part, 1 for amplitude 1."""
    return float(np.sqrt(2 * np.mean(np.square(pcm[SETTLED:-SETTLED]))))


def _level_at(pcm: Pcm, hz: float, rate_hz: int) -> float:
    """Amplitude of one frequency."""
    steady = pcm[SETTLED:-SETTLED] * np.hanning(len(pcm) - 2 * SETTLED)
    turn = np.exp(-2j * np.pi * hz * np.arange(len(steady)) / rate_hz)
    return float(4 * np.abs(np.mean(steady * turn)))


@pytest.mark.parametrize("hz", [100, 1000, 4000, 8000])
def test_speech_survives_halving_and_doubling(hz: float) -> None:
    halved = HalveRate().push(_sine(hz, WIRE_HZ, WIRE_HZ))
    assert len(halved) == SAMPLE_RATE_HZ and halved.dtype == np.float32
    assert _level_at(halved, hz, SAMPLE_RATE_HZ) == pytest.approx(1, abs=0.01)
    doubled = DoubleRate().push(halved)
    assert len(doubled) == WIRE_HZ and doubled.dtype == np.float32
    assert _level_at(doubled, hz, WIRE_HZ) == pytest.approx(1, abs=0.01)
    assert _level(doubled) == pytest.approx(1, abs=0.01), "and nothing was added"


@pytest.mark.parametrize("hz", [15_000, 17_000, 20_000, 23_900])
def test_what_24_khz_cannot_hold_is_gone_and_does_not_fold_down(hz: float) -> None:
    assert _level(HalveRate().push(_sine(hz, WIRE_HZ, WIRE_HZ))) < 0.01


@pytest.mark.parametrize("hz", [300, 1000, 5000])
def test_doubling_adds_no_mirror(hz: float) -> None:
    doubled = DoubleRate().push(_sine(hz, SAMPLE_RATE_HZ, SAMPLE_RATE_HZ))
    assert _level_at(doubled, SAMPLE_RATE_HZ - hz, WIRE_HZ) < 0.002


@settings(deadline=None)
@given(st.lists(st.integers(0, 2000), min_size=1, max_size=20), st.sampled_from([HalveRate, DoubleRate]))
def test_pieces_give_what_the_whole_gives(halves: list[int], kind: type[Filter]) -> None:
    pieces = [2 * half for half in halves]
    sound = np.random.default_rng(1).standard_normal(sum(pieces)).astype(np.float32)
    whole, stream = kind(), kind()
    parts = [stream.push(part) for part in np.split(sound, np.cumsum(pieces)[:-1])]
    assert np.allclose(np.concatenate(parts), whole.push(sound), atol=2e-6)


def test_there_and_back_takes_less_than_a_millisecond_and_a_half() -> None:
    click = np.zeros(4800, dtype=np.float32)
    click[1000] = 1
    back = DoubleRate().push(HalveRate().push(click))
    delay_samples = int(np.argmax(np.abs(back))) - 1000
    assert 0 <= delay_samples <= 1.5 * WIRE_HZ / 1000


def test_silence_stays_silence_and_each_stream_has_its_own_past() -> None:
    for kind in (HalveRate, DoubleRate):
        loud, quiet = kind(), kind()
        loud.push(np.ones(960, dtype=np.float32))
        assert not quiet.push(np.zeros(960, dtype=np.float32)).any()
