"""Memory that runs out, wherever: one sentence with the next smaller plan, never a traceback; others go on."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from support.engine import CHOICES, ProbeStepper, is_over, join_talking, until
from support.resume import LOST, assert_unknown, talked

from personaplex_app import sources
from personaplex_app.assemble import build_stepper
from personaplex_app.cli import main
from personaplex_app.engine import tick_loop
from personaplex_app.engine.facade import Engine
from personaplex_app.errors import ServerFault
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.out_of_memory import CODE, memory_sentence, memory_told, smaller_plan
from personaplex_app.settings import EngineChoice

SMALLER = "--slots 3"


def _run_out(*_: object, **__: object) -> Any:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.46 GiB. GPU 0 has a total capacity of 23 GiB")


class HungryStepper(ProbeStepper):
    """An echo whose memory runs out in the methods named; it was planned."""

    def __init__(self, slots: int = 2) -> None:
        super().__init__(slots)
        self.plan = SimpleNamespace(smaller=SMALLER)
        self.hungry: set[str] = set()

    def _enter(self, method: str) -> None:
        super()._enter(method)
        if method in self.hungry:
            _run_out()


def _assert_one_line(caplog: pytest.LogCaptureFixture, what: str) -> None:
    """The operator reads one line that names the next smaller plan, without a traceback."""
    lines = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(lines) == 1 and lines[0].exc_info is None
    assert what in lines[0].getMessage() and f"Start with {SMALLER}" in lines[0].getMessage()


@pytest.mark.parametrize(("method", "what"), [("step", "a step failed"), ("prime", "priming slot 1 failed")])
def test_in_the_engine_the_talk_ends_in_words_and_the_engine_goes_on(
    method: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    stepper = HungryStepper()
    with Engine(stepper) as engine:
        talker = join_talking(engine)
        stepper.hungry.add(method)
        if method == "prime":
            unlucky = engine.join(CHOICES)
        else:
            talker.say(1)
            unlucky = talker.session
        until(lambda: is_over(unlucky))
        assert unlucky.ended_because == tick_loop.NO_MEMORY
        stepper.hungry.clear()
        _assert_one_line(caplog, what)
        until(lambda: engine.status.free >= 1)
        join_talking(engine)
        assert not engine.status.failed


def test_a_talk_that_cannot_be_put_aside_is_over_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    stepper = HungryStepper()
    with Engine(stepper) as engine:
        talker = talked(engine, 2)
        stepper.hungry.add("save")
        engine.leave(talker.session, LOST, park=True)
        until(lambda: engine.status.free == 2)
        assert_unknown(engine, talker.session.grant)
        _assert_one_line(caplog, "its talk cannot be resumed")


def test_while_loading(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "load_weights", _run_out)
    with pytest.raises(ServerFault) as told:
        build_stepper(EngineChoice("mini", tmp_path, device="cpu"))
    assert told.value.code == CODE and told.value.sentence.startswith("The memory ran out while the model was loaded.")
    sound = tmp_path / "in.wav"
    soundfile.write(sound, np.zeros(1920, dtype=np.float32), 24_000)
    flags = ["--checkpoint", "mini", "--device", "cpu"]
    assert main(["render", str(sound), str(tmp_path / "out.wav"), *flags]) == 1
    said = capsys.readouterr().err
    assert (
        said.startswith("error: The memory ran out while the model was loaded. Start with --precision bfloat16, or end")
        and said.count("\n") == 1
    )
    with pytest.raises(torch.OutOfMemoryError):  # a bench's row says it in its own way
        build_stepper(EngineChoice("mini", tmp_path, device="cpu", purpose="bench"))


def test_while_rendering(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SpeechStepper, "step", _run_out)
    sound = tmp_path / "in.wav"
    soundfile.write(sound, np.zeros(1920, dtype=np.float32), 24_000)
    assert main(["render", str(sound), str(tmp_path / "out.wav"), "--checkpoint", "mini", "--device", "cpu"]) == 1
    said = capsys.readouterr().err
    assert "error: The memory ran out while the sound was rendered. Start with --precision bfloat16, or end" in said
    assert "Traceback" not in said


def test_anywhere_else_in_a_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("personaplex_app.cli.read_settings", _run_out)
    assert main(["serve"]) == 1
    assert capsys.readouterr().err == f"error: {memory_sentence('The memory ran out')}\n"
    monkeypatch.setattr("personaplex_app.cli.read_settings", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["serve"])


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), memory_told("while dividing"):
        _ = 1 // 0
    assert smaller_plan(object()) == "" and smaller_plan(HungryStepper()) == SMALLER
