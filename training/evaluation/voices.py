"""Who asks: voices that training never had, where they are installed.

In: a voice's name. Out: sentences as sound. Must not know: lines, talks.
"""

from __future__ import annotations

import functools
from pathlib import Path

from training.speech import hibari_voice, kokoro_voice, plain_voices
from training.speech.hibari_voice import Speaker
from training.speech.levels import Sound, trimmed

SEEN = "hibari"  # the synthesizer of training itself, where nothing else is there


def unseen_voices(kokoro_voices: Path) -> list[str]:
    """Names of the voices that can ask here; hibari alone where none is installed."""
    names = ["joe"] if plain_voices.joe_is_here() else []
    if kokoro_voice.is_here(kokoro_voices):
        names += [voice for voice in kokoro_voice.HELD_OUT if (kokoro_voices / f"{voice}.bin").exists()]
    return names or [SEEN]


@functools.cache
def said_by(voice: str, text: str, kokoro_voices: Path) -> Sound:
    """A sentence, trimmed, at -24 dB."""
    if voice == "joe":
        pcm = plain_voices.joe(text)
    elif voice == SEEN:
        pcm, _ = hibari_voice.speak(text, Speaker())
    else:
        pcm = kokoro_voice.speak(text, kokoro_voices, voice, 1.0)
    return trimmed(pcm)[0]
