"""What the page offers: personas, voices, starting values and what it says of the model. Pure.

Must not know: gradio, the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from personaplex_app.audio import FRAME_MS
from personaplex_app.controls import SamplingSettings
from personaplex_app.personas import Persona
from personaplex_app.voices import NO_VOICE, describe_voice

TOY_NOTICE = (
    "**This is a toy, not PersonaPlex.** A miniature of the same architecture (24 million parameters instead of "
    "8 billion) runs on this machine's CPU and recites a closed little world: it knows the facts of its prompt and a "
    "few hundred sentences, and mishears some questions. It says nothing of PersonaPlex's quality. "
    "For the real thing: a GPU with 24 GB, the licence of `nvidia/personaplex-7b-v1` accepted on Hugging Face, then "
    "`HF_TOKEN=... scripts/start --checkpoint hub`."
)
ECHO_NOTICE = "**Echo.** No model runs here: you hear yourself, to check the line."
RANDOM_NOTICE = "**Random weights.** What you hear is noise; this checkpoint proves speed, not speech."
REAL_NOTICE = "English only · use headphones · a talk remembers its last 240 seconds, prompt included."


def notice_of(random: bool, trained_positions: int | None) -> str:
    """What the page says of a model, by what its `config.json` says: a copy of a miniature is one too."""
    if random:
        return RANDOM_NOTICE
    return TOY_NOTICE if trained_positions is not None else REAL_NOTICE


def preview_note_of(random: bool, trained_positions: int | None) -> str:
    """What stands beside a voice's preview, by the same; nothing where it is the real thing."""
    if random:
        return "Noise: these weights are random."
    return "A toy's voice: it says nothing of PersonaPlex's." if trained_positions is not None else ""


def speed_words(step_ms: float) -> str:
    """What the measured step means for a talk."""
    told = f"{step_ms:.1f}" if step_ms < 10 else f"{step_ms:.0f}"
    if step_ms <= FRAME_MS:
        return f"A frame takes {told} ms of {FRAME_MS:.0f} here."
    return (
        f"A frame takes {told} ms; {FRAME_MS:.0f} would be real time: talking will stutter here, offline render works."
    )


@dataclass(frozen=True)
class Catalogue:
    """The page's choices.

    Attributes:
        voices: names the checkpoint has, in order; `none` is always offered last.
    """

    personas: tuple[Persona, ...]
    voices: tuple[str, ...]
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    notice: str = REAL_NOTICE

    def saying(self, fact: str) -> Catalogue:
        """The same, with one more fact below the notice."""
        return replace(self, notice=f"{self.notice}\n\n{fact}".strip())

    @property
    def voice_choices(self) -> list[tuple[str, str]]:
        """(words, name) pairs for a list to choose from."""
        return [(describe_voice(name), name) for name in (*self.voices, NO_VOICE)]

    def persona(self, persona_id: str) -> Persona:
        """A persona by id; the first one for an id that does not exist."""
        found = [persona for persona in self.personas if persona.id == persona_id]
        return found[0] if found else self.personas[0]

    def voice_of(self, persona: Persona) -> str:
        """The persona's voice where this checkpoint has it, else the first there is."""
        if persona.voice in self.voices:
            return persona.voice
        return self.voices[0] if self.voices else NO_VOICE
