"""`python -m training.evaluate CHECKPOINT`: talks with a checkpoint, through the app's own stepper, and its marks.

In: a checkpoint directory, or `demo`. Out: `table.md`, `marks.json` and the talks' sound in a folder.
Must not know: how the checkpoint was trained. Voices and wordings are those that training never had.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import soundfile

from personaplex_app.assemble import build_stepper
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.settings import EngineChoice
from training.evaluation.codec_errors import codec_word_errors
from training.evaluation.lines import LINES
from training.evaluation.listener import Listener
from training.evaluation.marks import Mark, figures, table
from training.evaluation.talks import Cast, Held, hold
from training.evaluation.voices import unseen_voices
from training.speech.levels import SAMPLE_RATE
from training.world.personas import draw_persona

STYLES = ("service", "casual", "service", "assistant")
FRAME_MS = 80.0


def casts(talks: int, seed: int, agent_voices: list[str], voices: list[str], styles: tuple[str, ...]) -> list[Cast]:
    """Who talks with whom; the same seed gives the same talks."""
    made = []
    for number in range(talks):
        style = styles[number % len(styles)]
        made.append(
            Cast(
                name=f"{number}-{style}",
                persona=draw_persona(Random(f"cast-{seed}-{number}"), style),
                agent_voice=agent_voices[number % len(agent_voices)],
                voice=voices[number % len(voices)],
                line=LINES[number % len(LINES)],
                seed=seed * 1000 + number,
            )
        )
    return made


def _write(out: Path, cast: Cast, held: Held) -> None:
    both = np.stack([held.caller, held.agent], 1)
    soundfile.write(out / f"{cast.name}.wav", both, SAMPLE_RATE, subtype="PCM_16")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("checkpoint", help="a directory, or demo")
    options.add_argument("--out", type=Path, default=Path("training-work/evaluation"))
    options.add_argument("--talks", type=int, default=8)
    options.add_argument("--seconds", type=float, default=230.0, help="of each talk")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--styles", nargs="+", default=list(STYLES), help="of the personas, in turn")
    options.add_argument("--intents", nargs="+", default=None, help="ask only these, and interrupt nothing")
    options.add_argument("--voices", nargs="+", default=None, help="who asks; default: all that training never had")
    options.add_argument("--kokoro-voices", type=Path, default=Path("kokoro-js/package/voices"))
    options.add_argument("--whisper", type=Path, default=None, help="a faster-whisper model; default: tiny.en's wheel")
    options.add_argument("--codec-sentences", type=int, default=40)
    options.add_argument("--cache", type=Path, default=Path("training-work/cache"))
    return options.parse_args(arguments)


def _extra(stepper: SpeechStepper, listener: Listener, chosen: argparse.Namespace, frame_ms: list[float]) -> Any:
    errors = codec_word_errors(stepper.codec, listener, chosen.codec_sentences, chosen.seed)
    coded, plain = 100 * errors["codec"], 100 * errors["plain"]
    return {
        "word errors of the codec": f"{coded:.1f} % (of the synthesizer alone {plain:.1f} %)",
        "real-time factor, median frame": f"{statistics.median(frame_ms) / FRAME_MS:.2f}",
    }


def main(arguments: list[str] | None = None) -> None:
    chosen = _options(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    stepper = build_stepper(EngineChoice(chosen.checkpoint, chosen.cache, device="cpu", precision="float32"))
    listener = Listener(chosen.whisper)
    voices = chosen.voices or unseen_voices(chosen.kokoro_voices)
    marks: list[Mark] = []
    frame_ms: list[float] = []
    for cast in casts(chosen.talks, chosen.seed, stepper.voice_names, voices, tuple(chosen.styles)):
        held = hold(stepper, cast, chosen.seconds, listener, chosen.kokoro_voices, chosen.intents)
        _write(chosen.out, cast, held)
        marks += held.marks
        frame_ms += held.frame_ms
        sys.stdout.write(f"{cast.name}, asked by {cast.voice}: {figures(held.marks)}\n")
        sys.stdout.flush()
    extra = _extra(stepper, listener, chosen, frame_ms)
    text = table(marks, extra)
    rows = {"figures": figures(marks), "more": extra, "marks": [asdict(one) for one in marks]}
    (chosen.out / "marks.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (chosen.out / "table.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
