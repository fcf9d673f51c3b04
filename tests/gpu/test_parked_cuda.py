"""A slot saved on a GPU goes to the host's memory and back beside the steps, and goes on as if it had never left."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch
from support.golden import GREEDY
from support.variants import with_config

from personaplex_app.assemble import build_stepper
from personaplex_app.audio import FRAME_SAMPLES
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.model import stepper as stepper_module
from personaplex_app.model.fast.stepper import FastStepper
from personaplex_app.model.saved_slot import SlotState
from personaplex_app.model.stepper import SpeechStepper, Step
from personaplex_app.model.transfer import Transfer
from personaplex_app.settings import EngineChoice

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]
Result = TypeVar("Result")
STRANGER = Choices("A stranger.", "none", SamplingSettings(audio_temperature=1.3, audio_top_k=0), 9)


def _build(checkpoint: str, cache: Path) -> SpeechStepper:
    return build_stepper(EngineChoice(checkpoint, cache, device="cuda", precision="float32", slots=2))


@pytest.fixture(scope="module")
def stepper(cache_outside_home: Path) -> SpeechStepper:
    with pytest.MonkeyPatch.context() as patch:
        small = functools.partial(Transfer, buffer_bytes=100_001)  # many bufferfuls, none of them whole numbers
        patch.setattr(stepper_module, "Transfer", small)
        return _build("mini", cache_outside_home)


def _sound(seed: int, frames: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((frames, FRAME_SAMPLES)) * 0.1).astype(np.float32)


def _talk(stepper: SpeechStepper, slot: int, seed: int, frames: int) -> list[Step]:
    """Steps of one slot; the other one hears noise of its own."""
    beside = _sound(seed + 100, frames)
    return [
        stepper.step({slot: frame, 1 - slot: beside[index]})[slot] for index, frame in enumerate(_sound(seed, frames))
    ]


def _tokens(steps: list[Step]) -> list[list[int]]:
    assert all(step.healthy for step in steps)
    return [[*step.tokens.tolist(), *step.heard_codes.tolist()] for step in steps]


def _elsewhere(move: Callable[[], Result], meanwhile: Callable[[], object]) -> Result:
    """What `move` gives on another thread, while this one steps on."""
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(move()))
    thread.start()
    meanwhile()
    thread.join(30)
    return results[0]


def _tensors(saved: SlotState) -> list[torch.Tensor]:
    return [*saved.language.tensors, *saved.codec]


def _open_both(stepper: SpeechStepper, sampling: SamplingSettings) -> None:
    stepper.prime(0, stepper.open(Choices("You enjoy having a good conversation.", "TINY0", sampling, 3)))
    stepper.prime(1, stepper.open(STRANGER))


@pytest.mark.parametrize("direct", [False, True], ids=["over the device", "straight from the host"])
@pytest.mark.parametrize("sampling", [GREEDY, SamplingSettings()], ids=["greedy", "seeded"])
def test_a_parked_slot_goes_on_as_if_it_had_never_left(
    stepper: SpeechStepper, sampling: SamplingSettings, direct: bool
) -> None:
    _open_both(stepper, sampling)
    _talk(stepper, 0, 1, 30)
    unbroken = _tokens(_talk(stepper, 0, 2, 40))
    _open_both(stepper, sampling)
    _talk(stepper, 0, 1, 30)
    saved = stepper.save(0)

    def strangers() -> None:
        stepper.release(0)
        stepper.prime(0, stepper.open(STRANGER))
        _talk(stepper, 0, 5, 20)

    host = _elsewhere(saved.to_host, strangers)
    assert host.on_host and not saved.on_host and host.bytes == saved.bytes and host.to_host() is host
    for there, here in zip(_tensors(saved), _tensors(host), strict=True):
        assert here.device.type == "cpu" and not here.is_pinned() and torch.equal(there.cpu(), here)
    del saved
    back = host if direct else _elsewhere(host.to_device, strangers)
    assert back.on_host is direct
    stepper.restore(0, back)
    del back
    assert _tokens(_talk(stepper, 0, 2, 40)) == unbroken


def test_a_rebuild_under_way_goes_with_its_slot(mini_directory: Path, tmp_path: Path, cache_outside_home: Path) -> None:
    directory = with_config(mini_directory, tmp_path / "short", lambda config: config.update(trained_positions=200))
    stepper = _build(str(directory), cache_outside_home)
    _open_both(stepper, SamplingSettings())
    _talk(stepper, 0, 1, 60)
    saved = stepper.save(0)
    assert saved.language.rebuild is not None and saved.language.rebuild.shadow is not None
    unbroken = _tokens(_talk(stepper, 0, 2, 90))
    for direct in (False, True):
        host = saved.to_host()
        stepper.release(0)
        stepper.restore(0, host if direct else host.to_device())
        assert _tokens(_talk(stepper, 0, 2, 90)) == unbroken


def test_where_the_device_has_no_room_the_talk_goes_on_from_the_host(
    stepper: SpeechStepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    _open_both(stepper, GREEDY)
    _talk(stepper, 0, 1, 5)
    host = stepper.save(0).to_host()
    assert host.transfer is not None

    def no_room() -> None:
        raise torch.OutOfMemoryError("told to")

    monkeypatch.setattr(host.transfer, "to_device", no_room)
    assert host.to_device() is host
    monkeypatch.undo()
    assert not host.to_device().on_host, "and the way is free again"


def test_a_shape_recorded_while_a_talk_is_brought_back(stepper: SpeechStepper) -> None:
    """Recording a graph on the stepping thread and copying on another do not disturb each other."""
    _open_both(stepper, GREEDY)
    _talk(stepper, 0, 1, 30)
    host = stepper.save(0).to_host()
    unbroken = _tokens(_talk(stepper, 0, 2, 20))
    assert isinstance(stepper, FastStepper)
    recorder = stepper._frame._recorder
    assert recorder is not None
    for strange in (
        SamplingSettings(audio_temperature=0.0, text_top_k=0),
        SamplingSettings(audio_temperature=0.0, repetition_penalty=1.3),
        SamplingSettings(text_top_k=0),
    ):
        recorder._recorded.clear()
        stepper.set_sampling(1, strange)
        back = _elsewhere(lambda: [host.to_device() for _ in range(20)][-1], lambda: _tokens(_talk(stepper, 0, 3, 3)))
        assert recorder._recorded and not recorder.remark
        stepper.restore(0, back)
        assert _tokens(_talk(stepper, 0, 2, 20)) == unbroken
