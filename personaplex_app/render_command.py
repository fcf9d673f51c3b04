"""`render IN OUT.wav`: a sound file through the model as fast as it goes.

In: parsed flags. Out: a WAV of IN's length and, where asked for, tokens and transcript.
Must not know: how the model works.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from personaplex_app.audio import FRAME_MS, SAMPLE_RATE_HZ
from personaplex_app.controls import Choices, SamplingSettings, parse_seed
from personaplex_app.errors import InvalidInput
from personaplex_app.out_of_memory import memory_told, smaller_plan
from personaplex_app.settings import add_model_flags, engine_choice, environment
from personaplex_app.voices import NO_VOICE, check_voice_name

if TYPE_CHECKING:
    from personaplex_app.model.prompts import VoicePrompt
    from personaplex_app.model.stepper import SpeechStepper
    from personaplex_app.offline import Rendered


def add_render(commands: Any) -> None:
    """Adds the subcommand with its flags."""
    parser = commands.add_parser("render", help="a sound file in, the persona's answer out")
    parser.add_argument("input", type=Path, metavar="IN", help="what the user says; any rate, any channels")
    parser.add_argument("output", type=Path, metavar="OUT.wav", help="mono 24 kHz, as long as IN")
    add_model_flags(parser, checkpoint="demo")
    parser.add_argument("--voice", default=None, help="a voice's name, a sound file, or none (default: the first one)")
    parser.add_argument("--prompt", default="", help="the persona's text; empty for none")
    parser.add_argument("--seed", default="0", help="a whole number; empty or -1 draws one")
    add_sampling_flags(parser)
    parser.add_argument("--transcript", type=Path, metavar="OUT.json", help="words with their start seconds")
    parser.add_argument("--tokens", type=Path, metavar="OUT.npz", help="tokens int64 [9, T], heard int64 [8, T]")
    parser.set_defaults(run=run_render)


def add_sampling_flags(parser: argparse.ArgumentParser) -> None:
    """Flags of whatever draws tokens."""
    parser.add_argument("--greedy", action="store_true", help="temperature 0, penalty 1")
    parser.add_argument("--temperature-audio", type=float)
    parser.add_argument("--temperature-text", type=float)
    parser.add_argument("--top-k-audio", type=whole_number)
    parser.add_argument("--top-k-text", type=whole_number)
    parser.add_argument("--repetition-penalty", type=float)


def whole_number(text: str) -> int:
    """A whole number as people write it, `1e9` included."""
    number = float(text)
    if not number.is_integer():
        raise ValueError(text)
    return int(number)


def run_render(flags: argparse.Namespace) -> None:
    """Checks what can be checked without a model first, then loads, renders and writes."""
    from personaplex_app.sound_files import read_sound, write_wav

    seed = parse_seed(flags.seed)
    sampling_from_flags(flags, SamplingSettings())
    pcm = read_sound(flags.input)
    for path in (flags.output, flags.transcript, flags.tokens):
        if path is not None:
            check_writable(path)
    stepper = build_from_flags(flags)
    choices, voice = _choices(flags, stepper, seed)
    with memory_told("while the sound was rendered", lambda: smaller_plan(stepper)):
        rendered = _render(stepper, choices, voice, pcm)
    write_wav(flags.output, rendered.pcm)
    if flags.tokens:
        _write_tokens(flags.tokens, rendered)
    if flags.transcript:
        _write_transcript(flags.transcript, rendered, choices)
    _report(rendered, stepper, choices)


def build_from_flags(flags: argparse.Namespace) -> SpeechStepper:
    """The stepper that `add_model_flags` describes, with one slot."""
    from personaplex_app.assemble import build_stepper

    return build_stepper(engine_choice(flags, environment(), 1, "render"), _say)


def sampling_from_flags(flags: argparse.Namespace, base: SamplingSettings) -> SamplingSettings:
    """What the flags of `add_sampling_flags` change; raises InvalidInput."""
    settings = base.changed(
        audio_temperature=flags.temperature_audio,
        text_temperature=flags.temperature_text,
        audio_top_k=flags.top_k_audio,
        text_top_k=flags.top_k_text,
        repetition_penalty=flags.repetition_penalty,
    )
    return settings.greedy() if flags.greedy else settings


def _choices(flags: argparse.Namespace, stepper: SpeechStepper, seed: int) -> tuple[Choices, VoicePrompt | None]:
    from personaplex_app.assemble import voice_from_file

    sampling = sampling_from_flags(flags, stepper.config.sampling)
    name = flags.voice if flags.voice is not None else (stepper.voice_names or [NO_VOICE])[0]
    if "/" in name or "." in name:
        return Choices(flags.prompt, Path(name).name, sampling, seed), voice_from_file(stepper, Path(name))
    return Choices(flags.prompt, check_voice_name(name), sampling, seed), None


def check_writable(path: Path) -> None:
    """Raises InvalidInput where no file can be written, before any work is done."""
    if path.is_dir():
        raise InvalidInput(f"{path} cannot be written: it is a directory.")
    if not path.parent.is_dir():
        raise InvalidInput(f"{path} cannot be written: there is no directory {path.parent}.")


def _render(stepper: SpeechStepper, choices: Choices, voice: VoicePrompt | None, pcm: Any) -> Rendered:
    from tqdm import tqdm

    from personaplex_app.offline import render

    def bar(frames: Any) -> Any:
        return tqdm(frames, unit="frame", file=sys.stderr, dynamic_ncols=True)

    return render(stepper, stepper.open(choices, voice), pcm, bar)


def _write_tokens(path: Path, rendered: Rendered) -> None:
    import numpy as np

    with path.open("wb") as file:
        np.savez(file, tokens=rendered.tokens, heard=rendered.heard)


def _write_transcript(path: Path, rendered: Rendered, choices: Choices) -> None:
    words = [{"word": word.text, "start": word.start_seconds} for word in rendered.transcript.words]
    content = {"text": rendered.transcript.text.strip(), "words": words, "voice": choices.voice, "seed": choices.seed}
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _report(rendered: Rendered, stepper: SpeechStepper, choices: Choices) -> None:
    import numpy as np

    middle, late = np.percentile(rendered.frame_ms, (50, 99))
    line = (
        f"{len(rendered.pcm) / SAMPLE_RATE_HZ:.2f} s rendered · frame p50 {middle:.1f} ms, p99 {late:.1f} ms, "
        f"real-time factor {np.mean(rendered.frame_ms) / FRAME_MS:.2f} · prompt {rendered.prime_ms:.0f} ms · "
        f"voice {choices.voice} · seed {choices.seed}"
    )
    print(line + _memory(stepper), file=sys.stderr)


def _memory(stepper: SpeechStepper) -> str:
    import torch

    if stepper.codec.device.type != "cuda":
        return ""
    return f" · GPU memory {torch.cuda.max_memory_reserved() / 2**30:.2f} GiB reserved at most"


def _say(line: str) -> None:
    print(line, file=sys.stderr)
