"""What a miniature does when people speak: which recordings there are, what is right to say to them, the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from training.evaluation import recordings
from training.evaluation.recordings import Recording
from training.people import is_good, report
from training.world.answers import UNKNOWN

HELLO = Recording(Path("hello.wav"), "Hello.", "hello")
STRANGE = Recording(Path("strange.wav"), "Change to which folder?", "unknown")


def test_only_what_is_installed_is_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "ALLISON", tmp_path)
    monkeypatch.setattr(recordings, "READER", tmp_path / "nowhere")
    assert recordings.recordings() == []
    tone = np.concatenate([np.zeros(4000), 0.5 * np.sin(np.arange(8000) / 5), np.zeros(4000)])
    soundfile.write(tmp_path / "goodbye.wav", tone, 8000)
    (one,) = recordings.recordings()
    assert (one.words, one.intent) == ("Goodbye.", "bye")
    sound = one.sound()
    assert sound.dtype == np.float32 and 20_000 < len(sound) < 36_000, "24 kHz, the silence around it cut off"


def test_what_the_world_does_not_know_is_answered_with_not_knowing() -> None:
    assert is_good(STRANGE, UNKNOWN[0]) and is_good(STRANGE, UNKNOWN[1])
    assert not is_good(STRANGE, "") and not is_good(STRANGE, "You are welcome.")
    assert not is_good(HELLO, UNKNOWN[0])


def test_the_report_counts_what_was_known_refused_and_silent() -> None:
    rows = [(HELLO, "Nice to meet you, Nick."), (STRANGE, UNKNOWN[0]), (STRANGE, ""), (STRANGE, "You are welcome.")]
    told = report(rows, {"plain": 0.03, "codec": 0.59})
    assert told.startswith(
        "0 of 1 sentences that the little world knows were answered right; of 3 that it does not know 1"
    )
    assert "1 with silence" in told and "3 % on the recordings, 59 % after" in told
    assert "| Change to which folder? | - | no |" in told and told.count("| yes |") == 1
