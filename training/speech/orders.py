"""What is to be said by whom: the orders of each family of voices, the same ones at every start.

In: how many renderings a sentence. Out: `Order`s; one order made: an `Utterance` with its sound.
Must not know: shelves, processes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from random import Random

from training.speech import hibari_voice, kokoro_voice, plain_voices
from training.speech.hibari_voice import Speaker
from training.speech.levels import SAMPLE_RATE, trimmed
from training.speech.shelf import Said, Utterance
from training.world.answers import agent_sentences
from training.world.questions import user_sentences

FAMILIES = ("agents", "hibari", "kokoro", "flite", "espeak")
AGENT_VOICES = {"NATF0": (1.0, 1.0), "NATM0": (0.56, 0.86)}  # factors on pitch and formants
AGENT_PACES = (1.0, 0.94, 1.08, 1.0)  # of a sentence's renderings


@dataclass(frozen=True)
class Order:
    """One sentence to be said; `how` holds what its family needs."""

    family: str
    voice: str
    text: str
    how: tuple[float, ...]


def orders(family: str, renderings: int, seed: int, kokoro_voices: Path) -> list[Order]:
    """All orders of a family in a shuffled, repeatable order: any first part of it is a fair sample."""
    rng = Random(f"{family}-{seed}")
    if family == "agents":
        made = [
            Order(family, voice, text, (*factors, AGENT_PACES[number % len(AGENT_PACES)], number))
            for voice, factors in AGENT_VOICES.items()
            for text in agent_sentences()
            for number in range(renderings)
        ]
    else:
        speakers = kokoro_voice.training_voices(kokoro_voices) if family == "kokoro" else []
        texts = [asked.text for asked in user_sentences()]
        made = [_user_order(family, text, rng, speakers) for text in texts for _ in range(renderings)]
    rng.shuffle(made)
    return made


def _user_order(family: str, text: str, rng: Random, speakers: list[str]) -> Order:
    if family == "hibari":
        pitch = math.exp(rng.uniform(math.log(0.48), math.log(1.3)))
        formants = pitch**0.3 * rng.uniform(0.93, 1.07)
        how: tuple[float, ...] = (pitch, formants, rng.uniform(0.8, 1.35), rng.randrange(1 << 30))
        return Order(family, f"hibari-{pitch:.2f}", text, how)
    if family == "kokoro":
        return Order(family, rng.choice(speakers), text, (rng.uniform(0.82, 1.3),))
    if family == "flite":
        return Order(family, rng.choice(plain_voices.FLITE), text, (rng.uniform(0.8, 1.15), rng.uniform(0.88, 1.12)))
    how = (rng.randint(130, 190), rng.randint(25, 75), rng.uniform(0.9, 1.1))
    return Order(family, rng.choice(plain_voices.ESPEAK), text, how)


def fulfil(order: Order, kokoro_voices: Path) -> Said:
    """Says it: speech at -24 dB, trimmed; for agents with the starts of the words."""
    starts: list[float] = []
    if order.family in ("agents", "hibari"):
        pitch, formants, pace, seed = order.how
        pcm, starts = hibari_voice.speak(order.text, Speaker(pitch, formants, pace, int(seed)))
    elif order.family == "kokoro":
        pcm = kokoro_voice.speak(order.text, kokoro_voices, order.voice, order.how[0])
    elif order.family == "flite":
        pcm = plain_voices.flite(order.text, order.voice, *order.how)
    else:
        words, pitch, stretch = order.how
        pcm = plain_voices.espeak(order.text, order.voice, int(words), int(pitch), stretch)
    sound, cut = trimmed(pcm)
    who = "agent" if order.family == "agents" else "user"
    kept = [max(0.0, start - cut / SAMPLE_RATE) for start in starts] if who == "agent" else []
    return Utterance(who, order.voice, order.text, word_starts=kept), sound
