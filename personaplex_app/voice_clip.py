"""Makes a visitor's clip fit to become a voice: silence cut off, peaks capped, what makes no good one refused in words.

In: a decoded clip. Out: the sound that takes the way of every voice's sound afterwards, and notes for the visitor.
Must not know: files, the codec, whose clip it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from personaplex_app.audio import SAMPLE_RATE_HZ, Pcm
from personaplex_app.errors import InvalidInput
from personaplex_app.loudness import normalize_loudness
from personaplex_app.speech_detector import SpeechDetector

LEAST_SECONDS, MOST_SECONDS = 3.0, 30.0
LEVEL_SAMPLES = 480  # 20 ms
SILENT_DB = -60.0  # nothing louder in it is silence
FLOOR_DB = -120.0
LOUD_PERCENT, QUIET_PERCENT = 95, 10  # of the levels: speech, and the pauses between words
BELOW_SPEECH_DB = 40.0  # sound begins so far below speech,
ABOVE_NOISE_DB = 6.0  # or so far above the noise
LEAST_BELOW_SPEECH_DB = 12.0
MARGIN_SECONDS = 0.15  # kept before the first sound and after the last
TOLD_CUT_SECONDS = 0.5
FULL_SCALE = 0.98
MOST_CLIPPED_SHARE = 0.002
LEAST_SPEECH_SECONDS = 1.0
SPEECH_STEP_SAMPLES = 768  # the detector's own window of 32 ms
LEAST_RANGE_DB, GOOD_RANGE_DB = 15.0, 25.0  # from pauses to speech
PEAK = 0.9  # at a voice's loudness
PEAK_BLOCK_SAMPLES = 120  # 5 ms
TOLD_CAP_DB = 1.0
DULL_RATE_HZ = 16_000
ECHO_NOTE = "This server only gives back what it hears: nothing speaks with the voice."

Levels = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Clip:
    """Sound as it was sent.

    Attributes:
        pcm: float32 [n], mono, 24 kHz. rate_hz: of the file. damaged: some of the file could not be read.
    """

    pcm: Pcm
    rate_hz: int = SAMPLE_RATE_HZ
    damaged: bool = False


@dataclass(frozen=True)
class PreparedClip:
    """Sound that a voice can be made of.

    Attributes:
        pcm: float32 [n], mono, 24 kHz, at a voice's loudness. notes: sentences on what was done to it.
    """

    pcm: Pcm
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return len(self.pcm) / SAMPLE_RATE_HZ


def prepare_clip(clip: Clip, most_seconds: float = MOST_SECONDS) -> PreparedClip:
    """Cuts silence off both ends, checks what is left, brings it to a voice's loudness and caps its peaks.

    Args:
        most_seconds: how much of a voice's sound the model listens to; 0 where there is no model.

    Raises InvalidInput with the figure that was too small or too large.
    """
    notes = _notes_on_file(clip, most_seconds)
    _check_length(len(clip.pcm))
    pcm = clip.pcm - clip.pcm.mean()  # a steady offset is no sound
    _check_loud_enough(pcm)
    kept = _without_silence(pcm, notes)
    _check_length(len(kept), len(pcm))
    kept = _first_seconds(kept, min(MOST_SECONDS, most_seconds or MOST_SECONDS), notes)
    _check_clipping(kept)
    kept = normalize_loudness(kept)
    _check_speech(kept)
    _check_noise(kept, notes)
    kept, lowered_db = cap_peaks(kept)
    if lowered_db >= TOLD_CAP_DB:
        notes.append(f"Single peaks were lowered by up to {lowered_db:.0f} dB.")
    return PreparedClip(kept, tuple(notes))


def _notes_on_file(clip: Clip, most_seconds: float) -> list[str]:
    notes = []
    if clip.damaged:
        notes.append("The file breaks off or is damaged; what could be read was used.")
    if clip.rate_hz < DULL_RATE_HZ:
        notes.append(f"The file has only {clip.rate_hz:,} samples a second, so the voice will sound dull.")
    if not most_seconds:
        notes.append(ECHO_NOTE)
    return notes


def _levels(pcm: Pcm) -> Levels:
    """Decibels below full scale of every 20 ms; [n // 480]."""
    whole = pcm[: len(pcm) // LEVEL_SAMPLES * LEVEL_SAMPLES].reshape(-1, LEVEL_SAMPLES)
    power = np.mean(np.square(whole), axis=1, dtype=np.float64)
    levels: Levels = 10 * np.log10(np.maximum(power, 10 ** (FLOOR_DB / 10)))
    return levels


def _check_loud_enough(pcm: Pcm) -> None:
    loudest = float(_levels(pcm).max(initial=FLOOR_DB))
    if loudest < SILENT_DB:
        raise InvalidInput(
            f"The clip is silent: its loudest moment is at {loudest:.0f} dB. Choose the right microphone, or speak up.",
            code="clip_silent",
        )


def _without_silence(pcm: Pcm, notes: list[str]) -> Pcm:
    levels = _levels(pcm)
    loud, quiet = np.percentile(levels, (LOUD_PERCENT, QUIET_PERCENT))
    loud = max(loud, SILENT_DB)
    threshold = np.clip(quiet + ABOVE_NOISE_DB, loud - BELOW_SPEECH_DB, loud - LEAST_BELOW_SPEECH_DB)
    sounding = np.flatnonzero(levels >= threshold)
    margin = round(MARGIN_SECONDS * SAMPLE_RATE_HZ)
    first = max(0, int(sounding[0]) * LEVEL_SAMPLES - margin)
    last = min(len(pcm), (int(sounding[-1]) + 1) * LEVEL_SAMPLES + margin)
    before, after = first / SAMPLE_RATE_HZ, (len(pcm) - last) / SAMPLE_RATE_HZ
    if max(before, after) >= TOLD_CUT_SECONDS:
        notes.append(f"Silence was cut off: {before:.1f} s at the beginning and {after:.1f} s at the end.")
    return pcm[first:last]


def _check_length(samples: int, of_samples: int | None = None) -> None:
    """of_samples: how many there were before silence was cut off."""
    seconds = samples / SAMPLE_RATE_HZ
    if seconds < LEAST_SECONDS:
        cut = "" if of_samples is None else f" of {of_samples / SAMPLE_RATE_HZ:.1f} s without the silence at its ends"
        raise InvalidInput(
            f"The clip is too short: it has {seconds:.1f} s{cut}, and a voice needs {LEAST_SECONDS:.0f} s.",
            code="clip_short",
        )


def _first_seconds(kept: Pcm, most_seconds: float, notes: list[str]) -> Pcm:
    most = round(most_seconds * SAMPLE_RATE_HZ)
    if len(kept) > most:
        notes.append(f"The first {most_seconds:.3g} s were used of {len(kept) / SAMPLE_RATE_HZ:.1f} s.")
    return kept[:most]


def _check_clipping(kept: Pcm) -> None:
    share = float(np.mean(np.abs(kept) >= FULL_SCALE))
    if share > MOST_CLIPPED_SHARE:
        raise InvalidInput(
            f"The clip is overdriven: {100 * share:.1f} % of its samples are at full scale, and "
            f"{100 * MOST_CLIPPED_SHARE:.1f} % is the most. Record it with less gain, or from further away.",
            code="clip_overdriven",
        )


def _check_speech(kept: Pcm) -> None:
    detector = SpeechDetector()
    steps = range(0, len(kept), SPEECH_STEP_SAMPLES)
    found = sum(detector.heard(kept[at : at + SPEECH_STEP_SAMPLES]) for at in steps)
    seconds = found * SPEECH_STEP_SAMPLES / SAMPLE_RATE_HZ
    if seconds < LEAST_SPEECH_SECONDS:
        much = f"Only {seconds:.1f} s of speech were" if seconds else "No speech was"
        raise InvalidInput(
            f"{much} found in {len(kept) / SAMPLE_RATE_HZ:.1f} s of sound. Let one person speak, without music.",
            code="clip_speechless",
        )


def _check_noise(kept: Pcm, notes: list[str]) -> None:
    loud, quiet = np.percentile(_levels(kept), (LOUD_PERCENT, QUIET_PERCENT))
    reach = float(loud - quiet)
    if reach < LEAST_RANGE_DB:
        raise InvalidInput(
            f"The clip is too noisy: the speech is only {reach:.0f} dB louder than what is heard in its pauses, and "
            f"{LEAST_RANGE_DB:.0f} dB are needed. Record it in a quieter place, closer to the microphone.",
            code="clip_noisy",
        )
    if reach < GOOD_RANGE_DB:
        notes.append(f"There is some noise: the speech is {reach:.0f} dB louder than what is heard in its pauses.")


def cap_peaks(pcm: Pcm) -> tuple[Pcm, float]:
    """Brings float32 [n] down to the most that peaks may be, by a gain that falls and rises within milliseconds.

    Returns the sound, and by how many decibels the highest peak was lowered; what lies 10 ms away stays as it is.
    """
    blocks = -(-len(pcm) // PEAK_BLOCK_SAMPLES)
    padded = np.pad(np.abs(pcm), (0, blocks * PEAK_BLOCK_SAMPLES - len(pcm)))
    gains = PEAK / np.maximum(padded.reshape(blocks, PEAK_BLOCK_SAMPLES).max(axis=1), PEAK)
    around = np.pad(gains, 1, mode="edge")
    lowest = np.minimum(np.minimum(around[:-2], around[2:]), gains)  # so that no line between two rises above a third
    middles = (np.arange(blocks) + 0.5) * PEAK_BLOCK_SAMPLES
    capped = np.asarray(pcm * np.interp(np.arange(len(pcm)), middles, lowest), dtype=np.float32)
    return capped, -20 * float(np.log10(gains.min()))
