"""The fast codec step equals moshi's modules, row by row, and says where it cannot run.

Its kernels run under Triton's interpreter here. That must be chosen before Triton is imported, so those cases, in
`support/fast_codec_cases.py`, run in a process of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from personaplex_app.model.codec import Codec, random_codec
from personaplex_app.model.config import CheckpointConfig, read_config
from personaplex_app.model.fast.mimi import CannotRunFast, MimiStep

TESTS = Path(__file__).parents[1]
LONGEST_SECONDS = 240


def _codec(mini_directory: Path, **changes: dict[str, Any]) -> Codec:
    """The miniature's kind of codec with random weights, and with parts of its settings changed."""
    mimi = read_config(mini_directory / "config.json").mimi
    assert mimi is not None
    changed = mimi | {part: mimi[part] | settings for part, settings in changes.items()}
    return random_codec(CheckpointConfig(mimi=changed), torch.device("cpu"), 1)


def test_cases_under_the_interpreter() -> None:
    """All of `support/fast_codec_cases.py`; what fails there is told here."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/support/fast_codec_cases.py"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_without_triton_it_says_so(mini_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(CannotRunFast, match="needs Triton"):
        MimiStep(_codec(mini_directory).mimi, 1)


@pytest.mark.skipif("TRITON_INTERPRET" in os.environ, reason="the interpreter needs no GPU")
def test_without_a_gpu_it_says_so(mini_directory: Path) -> None:
    with pytest.raises(CannotRunFast, match="needs an NVIDIA GPU"):
        MimiStep(_codec(mini_directory).mimi, 1)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"seanet": {"pad_mode": "replicate"}}, "zeros in front of the sound"),
        ({"seanet": {"true_skip": False}}, "residual blocks"),
        ({"seanet": {"activation_params": {"alpha": 0.5}}}, "ELU"),
        ({"transformer": {"gating": "silu"}}, "feed-forward"),
        ({"transformer": {"norm": "rms_norm"}}, "layer norms"),
        ({"transformer": {"positional_embedding": "sin"}}, "rotary positions"),
    ],
)
def test_a_codec_of_another_kind_is_refused(
    mini_directory: Path, changes: dict[str, dict[str, Any]], what: str
) -> None:
    with pytest.raises(CannotRunFast, match=what):
        MimiStep(_codec(mini_directory, **changes).mimi, 1)
