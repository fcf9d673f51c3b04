"""`render`: any sound in, an answer of the same length out; the golden call; nothing of the web is needed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from support.golden import Reference, golden_prompt
from support.ties import hear_as_reference

from personaplex_app import offline
from personaplex_app.audio import SAMPLE_RATE_HZ
from personaplex_app.cli import main
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.offline import Rendered, render
from personaplex_app.sound_files import read_sound

ROOT = Path(__file__).parents[2]
WEB = ("gradio", "fastrtc", "fastapi", "aiortc", "uvicorn")
BLOCKED = (
    f"import sys\nfor name in {WEB}: sys.modules[name] = None\nfrom personaplex_app.cli import main\nsys.exit(main())"
)


def _render(sound: Path, out: Path, *flags: str) -> int:
    return main(["render", str(sound), str(out), "--checkpoint", "mini", "--device", "cpu", *flags])


def _noise(samples: int, channels: int = 1) -> np.ndarray:
    shape = (samples, channels) if channels > 1 else samples
    return (np.random.default_rng(0).standard_normal(shape) * 0.1).astype(np.float32)


def _wav(path: Path, samples: int, rate_hz: int = SAMPLE_RATE_HZ, channels: int = 1) -> Path:
    soundfile.write(path, _noise(samples, channels), rate_hz)
    return path


def _samples(out: Path) -> int:
    """Length of a result, whose kind is checked."""
    info = soundfile.info(out)
    assert (info.samplerate, info.channels, info.format, info.subtype) == (SAMPLE_RATE_HZ, 1, "WAV", "PCM_16")
    return info.frames


def test_the_golden_call(
    mini_checkpoint: Checkpoint, reference: Reference, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_reference(stepper: Any, *others: Any) -> Rendered:
        hear_as_reference(monkeypatch, stepper.codec, reference["mimi_codes"])
        return render(stepper, *others)

    monkeypatch.setattr(offline, "render", as_reference)
    prompt = golden_prompt(mini_checkpoint, reference)
    flags = ("--voice", "TINY0", "--greedy", "--prompt", prompt, "--tokens", str(tmp_path / "o.npz"))
    assert _render(fixtures / "offline_input.wav", tmp_path / "o.wav", *flags) == 0
    tokens = np.load(tmp_path / "o.npz")["tokens"]
    np.testing.assert_array_equal(tokens[:, :-1], reference["offline_step_outputs"][:9, 1:])
    assert _samples(tmp_path / "o.wav") == soundfile.info(fixtures / "offline_input.wav").frames


@pytest.mark.parametrize(
    ("samples", "rate_hz", "channels", "expected"),
    [
        (2400, 24_000, 1, 2400),
        (1, 24_000, 1, 1),
        (1920, 24_000, 1, 1920),
        (12_345, 24_000, 1, 12_345),
        (44_101, 44_100, 2, 24_001),
        (4000, 8000, 1, 12_000),
        (9601, 96_000, 6, 2400),
    ],
)
def test_the_answer_is_as_long_as_what_was_heard(
    tmp_path: Path, samples: int, rate_hz: int, channels: int, expected: int
) -> None:
    sound = _wav(tmp_path / "in.wav", samples, rate_hz, channels)
    assert _render(sound, tmp_path / "out.wav") == 0
    assert _samples(tmp_path / "out.wav") == expected


@pytest.mark.parametrize("suffix", ["mp3", "m4a", "ogg", "flac", "webm"])
def test_files_as_phones_and_browsers_make_them(tmp_path: Path, suffix: str) -> None:
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        pytest.skip("no ffmpeg to make the file with")
    sound = _wav(tmp_path / "in.wav", 48_000, 48_000, 2)
    made = tmp_path / f"in.{suffix}"
    subprocess.run([ffmpeg, "-loglevel", "error", "-i", str(sound), str(made)], check=True)
    assert _render(made, tmp_path / "out.wav") == 0
    assert _samples(tmp_path / "out.wav") == len(read_sound(made)) == pytest.approx(SAMPLE_RATE_HZ, abs=3000)


def test_tokens_and_transcript(tmp_path: Path, capsys: Any) -> None:
    sound = _wav(tmp_path / "in.wav", 20_000)
    outputs = ("--tokens", str(tmp_path / "o.npz"), "--transcript", str(tmp_path / "o.json"))
    assert _render(sound, tmp_path / "out.wav", "--seed", "7", "--temperature-text", "2", *outputs) == 0
    kept = np.load(tmp_path / "o.npz")
    assert {name: (kept[name].shape, kept[name].dtype) for name in kept} == {
        "tokens": ((9, 11), np.int64),
        "heard": ((8, 11), np.int64),
    }
    told = json.loads((tmp_path / "o.json").read_text(encoding="utf-8"))
    assert (told["voice"], told["seed"]) == ("TINY0", 7)
    assert told["text"].split() == " ".join(word["word"] for word in told["words"]).split() != []
    starts = [word["start"] for word in told["words"]]
    assert starts == sorted(starts) and starts[0] >= 0 and starts[-1] <= 0.8
    assert "0.83 s rendered" in (report := capsys.readouterr().err) and "real-time factor" in report


def _tokens(tmp_path: Path, *flags: str) -> np.ndarray:
    sound = tmp_path / "in.wav"
    if not sound.exists():
        _wav(sound, 20_000)
    assert _render(sound, tmp_path / "out.wav", "--tokens", str(tmp_path / "o.npz"), *flags) == 0
    return np.load(tmp_path / "o.npz")["tokens"]


def test_the_same_flags_give_the_same_tokens_and_each_flag_counts(tmp_path: Path) -> None:
    plain = _tokens(tmp_path)
    np.testing.assert_array_equal(plain, _tokens(tmp_path, "--seed", "0"))
    for flags in (
        ("--seed", "1"),
        ("--temperature-audio", "0.1"),
        ("--temperature-text", "0.1"),
        ("--top-k-audio", "2"),
        ("--top-k-text", "1"),
        ("--prompt", "Hello."),
        ("--voice", "none"),
        ("--greedy",),
        ("--precision", "bfloat16"),
    ):
        assert (plain != _tokens(tmp_path, *flags)).any(), flags


def test_a_voice_may_be_a_name_a_saved_voice_or_a_recording(
    tmp_path: Path, mini_directory: Path, fixtures: Path
) -> None:
    named = _tokens(tmp_path, "--voice", "TINY0")
    np.testing.assert_array_equal(named, _tokens(tmp_path, "--voice", str(mini_directory / "voices" / "TINY0.pt")))
    assert (named != _tokens(tmp_path, "--voice", str(fixtures / "custom_voice.wav"))).any()


def test_a_checkpoint_may_be_a_directory(tmp_path: Path, mini_directory: Path) -> None:
    named = _tokens(tmp_path)
    flags = ("--checkpoint", str(mini_directory), "--precision", "float32")
    np.testing.assert_array_equal(named, _tokens(tmp_path, *flags))


def test_works_where_the_web_is_not_installed(tmp_path: Path, cache_outside_home: Path) -> None:
    sound = _wav(tmp_path / "in.wav", 5000)
    command = [sys.executable, "-c", BLOCKED, "render", str(sound), str(tmp_path / "out.wav"), "--checkpoint", "mini"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert _samples(tmp_path / "out.wav") == 5000 and "Traceback" not in done.stderr and done.stdout == ""
    assert "3/3" in done.stderr, "a progress bar counts the frames"
