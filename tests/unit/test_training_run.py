"""All steps of the training in order, within the time of one call; the next call goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training import run
from training.places import Places
from training.sizes import language_config, mimi_config, size
from training.speech.shelf import Utterance, write_shelf


class Steps:
    """Steps that do nothing but leave their last file; `unready` ones need another call, `broken` ones fail."""

    def __init__(self, work: Path) -> None:
        self.ran: list[str] = []
        self.unready: set[str] = set()
        self.broken: set[str] = set()
        self._places = Places(work)

    def run(self, step: str, arguments: list[str], seconds: float | None) -> int:
        self.ran.append(step)
        if step in self.broken:
            return 1
        if step in self.unready:
            return 0
        marks = {
            "world": self._places.tokenizer,
            "codec": self._places.codec,
            "language": self._places.language,
            "decoder": self._places.decoder,
            "package": self._places.package / "config.json",
        }
        path = marks.get(step, self._places.done(step))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        return 0


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    made = Steps(tmp_path)
    monkeypatch.setattr(run, "run_step", made.run)
    return made


def _exit_code(work: Path, *more: str) -> object:
    with pytest.raises(SystemExit) as ended:
        run.main(["--work", str(work), *more])
    return ended.value.code


def test_every_step_runs_once_and_in_order(steps: Steps, tmp_path: Path) -> None:
    assert _exit_code(tmp_path) == 0 and steps.ran == list(run.STEPS)
    assert _exit_code(tmp_path) == 0 and steps.ran == list(run.STEPS), "nothing is done twice"


def test_a_step_that_needs_more_time_is_gone_on_with(steps: Steps, tmp_path: Path) -> None:
    steps.unready = {"codec"}
    assert _exit_code(tmp_path, "--seconds", "600") == run.AGAIN and steps.ran == ["world", "speech", "codec"]
    steps.unready = set()
    assert _exit_code(tmp_path, "--seconds", "600") == 0 and steps.ran[3:] == list(run.STEPS[2:])


def test_no_step_is_begun_when_the_time_is_up(steps: Steps, tmp_path: Path) -> None:
    assert _exit_code(tmp_path, "--seconds", "30") == run.AGAIN and not steps.ran


def test_a_step_that_fails_ends_the_run(steps: Steps, tmp_path: Path) -> None:
    steps.broken = {"encode"}
    assert _exit_code(tmp_path) == 1 and steps.ran[-1] == "encode"


def test_speech_made_elsewhere_is_taken_in_first(steps: Steps, tmp_path: Path) -> None:
    tone = np.sin(np.arange(24_000) / 10).astype(np.float32)
    write_shelf(tmp_path / "packs" / "kokoro", "kokoro-0000", [(Utterance("user", "tone", "a"), tone)], packed=True)
    assert _exit_code(tmp_path / "work", "--packs", str(tmp_path / "packs"), "--steps", "speech") in (0, run.AGAIN)
    assert (tmp_path / "work" / "speech" / "kokoro" / "kokoro-0000.npy").exists()


def test_a_quicker_pace_gives_less_time_and_no_smaller_model() -> None:
    whole, quick = size("full"), size("full", 0.5)
    assert quick.codec.seconds == whole.codec.seconds / 2 and quick.language.seconds == whole.language.seconds / 2
    assert quick.codec.decoder_seconds == whole.codec.decoder_seconds / 2
    assert quick.least_tracks == whole.least_tracks / 2 and quick.track_seconds == whole.track_seconds / 2
    assert mimi_config(quick.codec) == mimi_config(whole.codec)
    assert language_config(quick.language, 1000) == language_config(whole.language, 1000)
