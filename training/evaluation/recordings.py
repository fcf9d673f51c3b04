"""Sentences spoken by people: recordings in Debian's packages asterisk-core-sounds-en-wav and pocketsphinx-testdata.

In: nothing. Out: those that are installed, with their words and what the little world takes them for.
Must not know: models. Most of them lie outside the little world; what is right to say then is that one does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import soundfile

from training.speech.levels import Sound, to_24k, trimmed

ALLISON = Path("/usr/share/asterisk/sounds/en_US_f_Allison")
READER = Path("/usr/share/pocketsphinx/test/data/librivox")
READ = "sense_and_sensibility_01_austen_64kb-"


@dataclass(frozen=True)
class Recording:
    """One sentence. intent: of the little world; `unknown` for what it has no answer to."""

    path: Path
    words: str
    intent: str

    def sound(self) -> Sound:
        """float32 24 kHz, trimmed, at -24 dB."""
        pcm, rate = soundfile.read(self.path, dtype="float32")
        return trimmed(to_24k(pcm, rate))[0]


_ALLISON = (
    ("hello", "Hello.", "hello"),
    ("hello-world", "Hello world.", "hello"),
    ("goodbye", "Goodbye.", "bye"),
    ("auth-thankyou", "Thank you.", "thanks"),
    ("privacy-thankyou", "Thank you.", "thanks"),
    ("one-moment-please", "One moment, please.", "stop"),
    ("please-try-again", "Please try again.", "unknown"),
    ("conf-invalid", "That is not a valid conference number. Please try again.", "unknown"),
    ("pbx-invalidpark", "I am sorry, there is no call parked on that extension. Please try again.", "unknown"),
    ("please-try-call-later", "Please try your call again later.", "unknown"),
    ("priv-recordintro", "At the tone, please say your name.", "unknown"),
    ("queue-thankyou", "Thank you for your patience.", "unknown"),
    ("pls-hold-while-try", "Please hold while we try to connect you.", "unknown"),
    ("vm-changeto", "Change to which folder?", "unknown"),
    ("check-number-dial-again", "Please check the number and dial again.", "unknown"),
)
_READER = (
    (
        "0870",
        "And Mister John Dashwood had then leisure to consider how much there might be prudently in his power "
        "to do for them.",
    ),
    ("0880", "He was not an ill disposed young man."),
    ("0890", "Unless to be rather cold hearted and rather selfish is to be ill disposed."),
    ("0920", "Had he married a more amiable woman he might have been made still more respectable than he was."),
    ("0930", "He might even have been made amiable himself."),
)


def recordings() -> list[Recording]:
    """All that are installed."""
    every = [Recording(ALLISON / f"{name}.wav", words, intent) for name, words, intent in _ALLISON]
    every += [Recording(READER / f"{READ}{number}.wav", words, "unknown") for number, words in _READER]
    return [one for one in every if one.path.exists()]
