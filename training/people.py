"""`python -m training.people CHECKPOINT`: what a miniature does when people speak, whom no training has heard.

In: a checkpoint directory, or `demo`. Out: a table on stdout: each recording, what was answered, what Whisper hears.
Must not know: how the checkpoint was trained. Each recording is said into a talk of its own.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from personaplex_app.assemble import build_stepper
from personaplex_app.controls import Choices
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.records.transcript import Transcript
from personaplex_app.settings import EngineChoice
from training.evaluation.codec_errors import word_errors_of
from training.evaluation.listener import Listener
from training.evaluation.recordings import Recording, recordings
from training.evaluation.words import is_right
from training.speech.levels import Sound
from training.world.answers import right_answers
from training.world.personas import ASSISTANT, Persona
from training.world.questions import Asked

FRAME = 1920
BEFORE_FRAMES, AFTER_FRAMES = 20, 75  # 1.6 s of silence before, 6 s for the answer
NOISE = 0.0003
PERSONA = Persona("assistant", ASSISTANT)


def answered(stepper: SpeechStepper, said: Sound, voice: str, seed: int) -> str:
    """The persona's words from the recording's end on."""
    spoken_frames = -(-len(said) // FRAME)
    frames = BEFORE_FRAMES + spoken_frames + AFTER_FRAMES
    heard = (NOISE * np.random.default_rng(seed).standard_normal(frames * FRAME)).astype(np.float32)
    heard[BEFORE_FRAMES * FRAME :][: len(said)] += said
    stepper.prime(0, stepper.open(Choices(PERSONA.prompt, voice, stepper.config.sampling, seed)))
    transcript = Transcript()
    for index, frame in enumerate(heard.reshape(-1, FRAME)):
        transcript.add(stepper.text(stepper.step({0: frame})[0].text_token), index)
    ends = (BEFORE_FRAMES + spoken_frames - 1) * FRAME / 24_000
    return " ".join(word.text for word in transcript.words if word.start_seconds >= ends)


def is_good(recording: Recording, text: str) -> bool:
    """Whether it is what the little world answers to this."""
    return is_right(text, right_answers(PERSONA, Asked(recording.intent, "", recording.words)))


def report(rows: list[tuple[Recording, str]], errors: dict[str, float]) -> str:
    """Markdown."""
    known = [is_good(one, text) for one, text in rows if one.intent != "unknown"]
    strange = [(is_good(one, text), bool(text)) for one, text in rows if one.intent == "unknown"]
    refused, silent = sum(good for good, _ in strange), sum(not spoke for _, spoke in strange)
    lines = [
        f"{sum(known)} of {len(known)} sentences that the little world knows were answered right; of {len(strange)} "
        f"that it does not know {refused} were answered with not knowing, {silent} with silence, the others with "
        "something else.",
        f"Whisper's word errors: {100 * errors['plain']:.0f} % on the recordings, {100 * errors['codec']:.0f} % after "
        "the codec.",
        "",
        "| said by a person | answered | as it should |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {one.words} | {text or '-'} | {'yes' if is_good(one, text) else 'no'} |" for one, text in rows]
    return "\n".join([*lines, ""])


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("checkpoint", help="a directory, or demo")
    options.add_argument("--cache", type=Path, default=Path("training-work/cache"))
    chosen = options.parse_args(arguments)
    found = recordings()
    if not found:
        sys.exit("Nothing to play: apt-get install asterisk-core-sounds-en-wav pocketsphinx-testdata")
    stepper = build_stepper(EngineChoice(chosen.checkpoint, chosen.cache, device="cpu", precision="float32"))
    voices, listener = stepper.voice_names, Listener()
    rows = [
        (one, answered(stepper, one.sound(), voices[number % len(voices)], number)) for number, one in enumerate(found)
    ]
    errors = word_errors_of(stepper.codec, listener, [(one.words, one.sound()) for one in found])
    sys.stdout.write(report(rows, errors))


if __name__ == "__main__":
    main()
