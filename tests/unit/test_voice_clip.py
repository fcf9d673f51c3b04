"""What becomes a voice: silence is cut off, peaks are capped, what makes no good voice is refused with its figure."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.clips import speech
from support.speech import pause

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm
from personaplex_app.errors import InvalidInput
from personaplex_app.loudness import VOICE_LUFS, normalize_loudness
from personaplex_app.voice_clip import ECHO_NOTE, PEAK, Clip, PreparedClip, cap_peaks, prepare_clip

LONG = 7  # times the speech is longer than what is kept


def prepared(pcm: Pcm, **facts: float) -> PreparedClip:
    return prepare_clip(Clip(np.asarray(pcm, dtype=np.float32), **facts))


def noise(samples: int, rms: float) -> Pcm:
    return (rms * np.random.default_rng(2).standard_normal(samples)).astype(np.float32)


def with_noise(below_speech_db: float) -> Pcm:
    said = speech()
    return said + noise(len(said), float(np.sqrt(np.mean(said**2))) / 10 ** (below_speech_db / 20))


def overdriven(gain_db: float) -> Pcm:
    said = speech() / np.abs(speech()).max()
    return np.clip(said * np.float32(10 ** (gain_db / 20)), -1.0, 1.0)


def test_good_speech_is_kept_whole_at_a_voice_s_loudness() -> None:
    import pyloudnorm

    voice = prepared(speech())
    assert len(speech()) / SAMPLE_RATE_HZ - voice.seconds < 0.8 and not voice.notes
    loudness = pyloudnorm.Meter(SAMPLE_RATE_HZ).integrated_loudness(voice.pcm.astype(np.float64))
    assert loudness == pytest.approx(VOICE_LUFS, abs=0.5) and voice.pcm.dtype == np.float32
    assert np.abs(normalize_loudness(voice.pcm) - voice.pcm).max() < 0.05, "the way of every voice changes little"


@pytest.mark.parametrize("level", [0.0, 3e-4], ids=["digital silence", "room noise"])
def test_silence_at_both_ends_is_cut_off_and_told(level: float) -> None:
    said = speech()
    before, after = pause(4.0), pause(6.0)
    whole = np.concatenate([before, said, after])
    voice = prepared(whole + noise(len(whole), level))
    assert voice.seconds == pytest.approx(prepared(said).seconds, abs=0.5)
    (note,) = voice.notes
    cut = [float(number) for number in re.findall(r"\d+\.\d", note)]
    assert cut == pytest.approx([4.0, 6.0], abs=0.7)


def test_what_is_longer_than_half_a_minute_is_cut_there_and_told() -> None:
    said = np.tile(speech(), LONG)
    voice = prepared(said)
    assert voice.seconds == 30.0 and re.fullmatch(r"The first 30 s were used of \d+\.\d s\.", voice.notes[0])


def test_a_model_that_listens_to_less_gets_less() -> None:
    voice = prepare_clip(Clip(speech()), most_seconds=5.12)
    assert voice.seconds == pytest.approx(5.12) and "The first 5.12 s were used" in voice.notes[0]


def test_where_nothing_speaks_that_is_said() -> None:
    voice = prepare_clip(Clip(speech()), most_seconds=0.0)
    assert ECHO_NOTE in voice.notes and voice.seconds > 5


def test_what_is_known_of_the_file_is_told() -> None:
    notes = prepared(speech(), rate_hz=8_000, damaged=True).notes
    assert "damaged" in notes[0] and "8,000 samples a second" in notes[1]


def test_single_peaks_are_capped_and_the_rest_stays_as_it_is() -> None:
    said = normalize_loudness(speech())
    struck = said.copy()
    middle = len(said) // 2
    struck[middle : middle + 8] = 2.0
    capped, lowered_db = cap_peaks(struck)
    assert np.abs(capped).max() <= PEAK + 1e-6 and lowered_db == pytest.approx(20 * np.log10(2.0 / PEAK))
    apart = np.abs(np.arange(len(said)) - middle) > 3 * 120
    assert (capped[apart] == said[apart]).all()
    assert (np.abs(capped) <= np.abs(struck) + 1e-7).all(), "nothing is made louder"


@pytest.mark.parametrize("samples", [1, 119, 120, 121, 1000])
def test_peaks_of_sounds_of_any_length_are_capped(samples: int) -> None:
    capped, lowered_db = cap_peaks(np.full(samples, 1.8, dtype=np.float32))
    assert capped == pytest.approx(np.full(samples, PEAK), abs=1e-6) and lowered_db == pytest.approx(6.02, abs=0.01)
    assert cap_peaks(np.full(samples, 0.5, dtype=np.float32))[1] == 0.0


def test_a_capped_peak_is_told() -> None:
    struck = speech() * np.float32(0.1 / np.abs(speech()).max())
    struck[len(struck) // 2 : len(struck) // 2 + 8] = 0.97
    voice = prepared(struck)
    assert np.abs(voice.pcm).max() <= PEAK + 1e-6 and re.search(r"lowered by up to \d+ dB", voice.notes[-1])


def test_an_offset_is_no_sound() -> None:
    voice = prepared(np.concatenate([pause(3.0), speech(), pause(3.0)]) + np.float32(0.05))
    assert voice.seconds == pytest.approx(prepared(speech()).seconds, abs=0.5)


def test_quiet_speech_is_made_louder() -> None:
    assert np.abs(prepared(speech() * np.float32(0.02)).pcm).max() > 0.1


REFUSED = {
    "a fifth of a second": (lambda: speech()[:4_800], "too short: it has 0.2 s, and a voice needs 3 s", "short"),
    "nothing": (lambda: pause(0), "too short: it has 0.0 s", "short"),
    "mostly silence": (
        lambda: np.concatenate([pause(10), speech()[12_000:48_000], pause(10)]),
        r"too short: it has 1\.\d s of 21\.5 s without the silence at its ends",
        "short",
    ),
    "digital silence": (lambda: pause(10), "silent: its loudest moment is at -120 dB", "silent"),
    "a dead microphone": (lambda: noise(240_000, 2e-4), r"silent: its loudest moment is at -7\d dB", "silent"),
    "overdriven": (lambda: overdriven(10), r"overdriven: \d\.\d % of its samples are at full", "overdriven"),
    "a tone": (
        lambda: 0.3 * np.sin(2 * np.pi * 440 * np.arange(240_000) / SAMPLE_RATE_HZ),
        "No speech was found in 10.0 s of sound",
        "speechless",
    ),
    "hiss": (lambda: noise(240_000, 0.1), "No speech was found in 10.0 s", "speechless"),
    "noisy speech": (lambda: with_noise(3), r"too noisy: the speech is only \d+ dB louder .* 15 dB are", "noisy"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_makes_no_good_voice_is_refused_with_its_figure(kind: str) -> None:
    make, sentence, code = REFUSED[kind]
    with pytest.raises(InvalidInput, match=sentence) as refused:
        prepared(make())
    assert refused.value.code == f"clip_{code}"


def test_some_noise_is_told_and_taken() -> None:
    assert any("some noise" in note for note in prepared(with_noise(15)).notes)
    assert not prepared(with_noise(35)).notes


def test_speech_that_is_just_not_overdriven_is_taken() -> None:
    assert prepared(overdriven(0)).seconds > 5
