"""Talks of two synthetic voices, and the room in which one of them comes back through a microphone.

Voices are the synthesizer's, higher or lower by resampling, which changes their tempo too. All is float32 at 24 kHz and
follows from a seed.
"""

from __future__ import annotations

import functools

import numpy as np
import soxr
from support.speech import speak

from personaplex_app.audio import FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm

SENTENCES = (
    "My bike has squeaky brakes, and the chain jumps when I ride uphill.",
    "What would that cost, and when can I bring it to you?",
    "I see, thank you, that sounds good to me.",
    "We are open from Tuesday to Saturday, eight in the morning until six in the evening.",
    "New brakes cost thirty five dollars, and a new chain is twenty eight dollars.",
    "The weather was lovely yesterday, so we walked along the river for three hours.",
    "My name is Kate Linden, and I work for Blue Heron Cycles.",
    "I have always wanted to learn the violin, but I never found the time for it.",
    "How long does a repair usually take, and do I have to leave the bike with you?",
    "It takes about two days; you can pick it up on Thursday afternoon.",
    "Well, photosynthesis is the way in which plants turn sunlight into sugar and oxygen.",
    "Let me think about that for a moment.",
)
BACKCHANNELS = ("Yes.", "Right.", "Mm hm.", "Really?", "Okay, great!")
LOW, USUAL, HIGH = 0.8, 1.0, 1.2
ROOM_SECONDS = 0.3


@functools.cache
def say(text: str, pitch: float = USUAL) -> Pcm:
    """A sentence in one of the voices."""
    said = speak(text)
    return said if pitch == USUAL else np.asarray(soxr.resample(said, SAMPLE_RATE_HZ, SAMPLE_RATE_HZ / pitch))


def lay(track: Pcm, at: int, sound: Pcm) -> int:
    """Adds a sound to a track; where it ends."""
    end = min(len(track), at + len(sound))
    track[at:end] += sound[: max(0, end - at)]
    return at + len(sound)


def monologue(seed: int, seconds: float, pitch: float = USUAL, pauses: tuple[float, float] = (0.2, 1.5)) -> Pcm:
    """Sentence after sentence, with pauses between them."""
    rng, track = np.random.default_rng(seed), np.zeros(samples(seconds), dtype=np.float32)
    at = samples(0.5)
    while at < len(track):
        at = lay(track, at, say(str(rng.choice(SENTENCES)), pitch)) + samples(rng.uniform(*pauses))
    return track


def turns(seed: int, seconds: float, user: float = LOW, persona: float = USUAL) -> tuple[Pcm, Pcm]:
    """Two who take turns, with gaps, overlaps and backchannels: what the user said, what the persona said."""
    rng = np.random.default_rng(seed)
    heard, spoken = (np.zeros(samples(seconds), dtype=np.float32) for _ in range(2))
    at = samples(0.5)
    while at < len(heard):
        at = lay(heard, at, say(str(rng.choice(SENTENCES)), user)) + samples(rng.uniform(-0.2, 0.8))
        began = at
        at = lay(spoken, at, say(str(rng.choice(SENTENCES)), persona)) + samples(rng.uniform(-0.2, 0.8))
        if rng.random() < 0.5:
            lay(heard, began + int(rng.uniform(0.2, 0.8) * (at - began)), say(str(rng.choice(BACKCHANNELS)), user))
    return heard, spoken


def repeats(seed: int, seconds: float) -> tuple[Pcm, Pcm]:
    """A user who says after the persona what it says, two thirds of a second late and more, in a tempo of their own."""
    rng = np.random.default_rng(seed)
    heard, spoken = (np.zeros(samples(seconds), dtype=np.float32) for _ in range(2))
    at = samples(0.5)
    while at < len(heard):
        text = str(rng.choice(SENTENCES))
        end = lay(spoken, at, say(text))
        after = lay(heard, at + samples(rng.uniform(0.65, 1.2)), slower(rng, say(text, float(rng.choice([LOW, 0.9])))))
        at = max(end, after) + samples(rng.uniform(0.2, 1.0))
    return heard, spoken


def slower(rng: np.random.Generator, sound: Pcm) -> Pcm:
    """The same, each syllable a little longer than it was."""
    pieces, at = [], 0
    while at < len(sound):
        piece = sound[at : at + samples(rng.uniform(0.15, 0.4))]
        at += len(piece)
        wanted = np.linspace(0, len(piece) - 1, int(len(piece) * rng.uniform(1, 1.2)) + 1)
        pieces.append(np.interp(wanted, np.arange(len(piece)), piece))
    return np.concatenate(pieces).astype(np.float32)


def leaked(seed: int, spoken: Pcm, delay_ms: float, level_db: float) -> Pcm:
    """What a microphone hears of it: late, softer, through a small loudspeaker and a room."""
    rng, length = np.random.default_rng(seed), samples(ROOM_SECONDS)
    room = rng.standard_normal(length) * np.exp(-6.9 * np.arange(length) / samples(0.25))
    room[0] = 8.0
    hz = np.fft.rfftfreq(len(spoken) + length, 1 / SAMPLE_RATE_HZ)
    loudspeaker = (hz > 200) & (hz < 7000)
    spectrum = np.fft.rfft(spoken, len(spoken) + length) * np.fft.rfft(room, len(spoken) + length) * loudspeaker
    sound = np.fft.irfft(spectrum)[: len(spoken)]
    sound *= 10 ** (level_db / 20) * np.sqrt(np.square(spoken).mean() / np.square(sound).mean())
    late = np.zeros(len(spoken), dtype=np.float32)
    lay(late, samples(delay_ms / 1000), sound.astype(np.float32))
    return late


def hiss(seed: int, seconds: float, level_db: float) -> Pcm:
    """A room's noise, softer the higher it is, at this level in dBFS."""
    count = samples(seconds)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(count))
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(1, np.arange(len(spectrum)))), count)
    return (noise * 10 ** (level_db / 20) / np.sqrt(np.square(noise).mean())).astype(np.float32)


def tune(seed: int, seconds: float) -> Pcm:
    """Plucked notes, four a second."""
    rng, track = np.random.default_rng(seed), np.zeros(samples(seconds), dtype=np.float32)
    at = np.arange(samples(0.5)) / SAMPLE_RATE_HZ
    for start in range(0, len(track), samples(0.25)):
        hz = 220 * 2 ** (int(rng.integers(24)) / 12)
        lay(track, start, (0.06 * np.sin(2 * np.pi * hz * at) * np.exp(-6 * at)).astype(np.float32))
    return track


def samples(seconds: float) -> int:
    """How many there are."""
    return int(seconds * SAMPLE_RATE_HZ)


def pairs(heard: Pcm, spoken: Pcm) -> list[tuple[int, Pcm, Pcm]]:
    """Both frame by frame, as an onlooker sees them."""
    return [
        (at // FRAME_SAMPLES, heard[at : at + FRAME_SAMPLES], spoken[at : at + FRAME_SAMPLES])
        for at in range(0, len(heard) - FRAME_SAMPLES + 1, FRAME_SAMPLES)
    ]
