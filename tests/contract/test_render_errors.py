"""`render` with what cannot be used: one sentence, exit code 2, no traceback, nothing written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from support.variants import replaced, with_config, with_tensors

from personaplex_app.cli import main
from personaplex_app.errors import ServerFault

ROOT = Path(__file__).parents[2]
CONTENTS = {
    "text.wav": b"this is no sound",
    "empty.wav": b"",
    "noise.mp3": bytes(range(256)) * 8,
    "truncated.wav": b"RIFF\x00\x00\x00\x00WAVEfmt ",
    "page.html": b"<html></html>",
    "voice.pt": b"x",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a good sound, and everything that is none."""
    soundfile.write(tmp_path / "good.wav", np.zeros(24_000, dtype=np.float32), 24_000)
    soundfile.write(tmp_path / "none.wav", np.zeros(0, dtype=np.float32), 24_000)
    soundfile.write(tmp_path / "nan.wav", np.full(99, np.nan), 24_000, subtype="FLOAT")
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    return tmp_path


def _refused(place: Path, capsys: Any, *flags: str, sound: str = "good.wav", out: str = "out.wav") -> str:
    """The sentence for a call that must be refused."""
    before = sorted(place.rglob("*"))
    arguments = ["render", str(place / sound), str(place / out), "--checkpoint", "mini", "--device", "cpu", *flags]
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == "" and "Traceback" not in told.err
    assert told.err.startswith("error: ") and told.err.count("\n") == 1 and len(told.err) < 600
    assert sorted(place.rglob("*")) == before, "nothing is written"
    return told.err


@pytest.mark.parametrize(
    ("sound", "sentence"),
    [
        ("nowhere.wav", "There is no file"),
        ("folder", "is not a file"),
        ("text.wav", "is no sound file that libsndfile or ffmpeg can read"),
        ("noise.mp3", "can read"),
        ("truncated.wav", "can read"),
        ("page.html", "can read"),
        ("empty.wav", "is empty"),
        ("none.wav", "holds no sound"),
        ("nan.wav", "not numbers"),
        ("\x00.wav", "There is no file"),
    ],
)
def test_what_is_no_sound(place: Path, capsys: Any, sound: str, sentence: str) -> None:
    assert sentence in _refused(place, capsys, sound=sound)


@pytest.mark.parametrize(
    ("voice", "sentence"),
    [
        ("NOBODY", "There is no voice NOBODY; this checkpoint has TINY0"),
        ("../../nowhere/passwd", "There is no file ../../nowhere/passwd"),
        ("/etc/passwd", "/etc/passwd is no sound file"),
        ("{place}/nowhere.wav", "There is no file"),
        ("{place}/nowhere.pt", "There is no file"),
        ("{place}/voice.pt", "is not a PersonaPlex voice file"),
        ("{place}/text.wav", "is no sound file"),
        ("{place}/good.wav", "The voice clip is silent"),
        ("{place}/folder", "is not a file"),
        ("TINY0\x00", "is no voice name"),
        ("", "is no voice name"),
    ],
)
def test_what_is_no_voice(place: Path, capsys: Any, voice: str, sentence: str) -> None:
    assert sentence in _refused(place, capsys, "--voice", voice.format(place=place))


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--temperature-audio", "nan"), "Audio temperature must be a number from 0 to 2, not nan"),
        (("--temperature-audio", "inf"), "Audio temperature must be a number from 0 to 2, not inf"),
        (("--temperature-text", "-1"), "Text temperature must be from 0 to 2, not -1"),
        (("--temperature-text", "99"), "Text temperature must be from 0 to 2, not 99"),
        (("--top-k-audio", "-5"), "Audio top-k must be from 0 to 1000000000, not -5"),
        (("--top-k-text", "-1"), "Text top-k must be from 0"),
        (("--repetition-penalty", "0.5"), "Repetition penalty must be from 1 to 2, not 0.5"),
        (("--greedy", "--temperature-text", "nan"), "Text temperature must be"),
        (("--seed", "abc"), "The seed must be a whole number"),
        (("--seed", "-7"), "The seed must be from 0"),
        (("--threads", "0"), "--threads must be from 1 to 256"),
        (("--prompt", "many words " * 1500), "at most 1000 fit"),
        (("--prompt", "x" * 100_000), "100,000 characters alone are"),
        (("--checkpoint", "nowhere"), "There is no checkpoint directory nowhere"),
        (("--tokens", "/nowhere/o.npz"), "there is no directory /nowhere"),
        (("--transcript", "/nowhere/o.json"), "there is no directory /nowhere"),
    ],
)
def test_flags_that_cannot_be(place: Path, capsys: Any, flags: tuple[str, ...], sentence: str) -> None:
    assert sentence in _refused(place, capsys, *flags)


@pytest.mark.parametrize("out", ["nowhere/out.wav", "folder", "good.wav/out.wav"])
def test_where_nothing_can_be_written(place: Path, capsys: Any, out: str) -> None:
    assert "cannot be written" in _refused(place, capsys, out=out)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_a_gpu_that_is_not_there(place: Path, capsys: Any) -> None:
    assert "No CUDA GPU is usable here" in _refused(place, capsys, "--device", "cuda")


def test_checkpoints_that_do_not_fit(place: Path, mini_directory: Path, tmp_path_factory: Any, capsys: Any) -> None:
    root = tmp_path_factory.mktemp("broken")
    missing = with_tensors(mini_directory, root / "a", lambda t: t.pop("text_linear.weight"))
    surplus = with_tensors(mini_directory, root / "b", lambda t: t.update(surprise=t["out_norm.alpha"].clone()))
    config = with_config(mini_directory, root / "c", lambda c: c.update(lm_config=[]))
    codec = with_config(mini_directory, root / "d", lambda c: c.update(mimi_config={}))
    tokenizer = with_config(mini_directory, root / "e", lambda c: None)
    replaced(tokenizer / "tokenizer_spm_32k_3.model", b"x")
    sentences = {
        missing: "lacks the tensor text_linear.weight",
        surplus: "unknown tensor surprise",
        config: "config.json is not usable",
        codec: "mimi_config",
        tokenizer: "is no SentencePiece model",
        root: "lacks the file model.safetensors",
    }
    for directory, sentence in sentences.items():
        assert sentence in _refused(place, capsys, "--checkpoint", str(directory))


@pytest.mark.parametrize(
    "flags", [(), ("render",), ("dance",), ("render", "a.wav", "b.wav", "--top-k-audio", "x")], ids=str
)
def test_a_command_that_is_none_shows_how_to_call(flags: tuple[str, ...], capsys: Any) -> None:
    with pytest.raises(SystemExit) as left:
        main(list(flags))
    told = capsys.readouterr().err
    assert left.value.code == 2 and told.startswith("error: ") and told.count("\n") == 1


def test_a_fault_of_ours_is_exit_code_one(place: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ServerFault("The model's numbers stopped being finite at frame 3.")

    monkeypatch.setattr("personaplex_app.offline.render", fail)
    assert main(["render", str(place / "good.wav"), str(place / "out.wav"), "--checkpoint", "mini"]) == 1
    assert capsys.readouterr().err == "error: The model's numbers stopped being finite at frame 3.\n"


def test_the_process_ends_with_the_code(place: Path) -> None:
    command = [sys.executable, "-m", "personaplex_app", "render", "nowhere.wav", str(place / "out.wav")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr, done.stdout) == (2, "error: There is no file nowhere.wav.\n", "")
