"""The same talk forced upon other weights: equal where they are the same, apart where they are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from personaplex_app import assemble
from personaplex_app.evaluation.bench_forced import measure_forced
from personaplex_app.evaluation.bench_report import Forced
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.loading import load_weights
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.settings import EngineChoice

FRAMES = 10


def _mini(tmp_path: Path) -> SpeechStepper:
    return assemble.build_stepper(EngineChoice("mini", tmp_path, device="cpu"))


def test_the_same_weights_agree(tmp_path: Path) -> None:
    same = measure_forced(lambda: _mini(tmp_path), lambda: _mini(tmp_path), FRAMES)
    assert same.frames == FRAMES and same.codes == 7 * FRAMES
    assert same.text_equal == same.top_equal == FRAMES and same.codes_equal == same.codes
    assert abs(same.kl_nats) < 1e-6


def _other(tmp_path: Path, checkpoint: Checkpoint, *, spoilt: bool) -> SpeechStepper:
    stepper = _mini(tmp_path)
    weights = load_weights(checkpoint, torch.device("cpu"), torch.float32, "int8")
    if spoilt:
        with torch.inference_mode():
            weights.temporal.out_norm.alpha.neg_()
    stepper.language.weights = replace(weights, config=stepper.language.config)
    return stepper


def test_eight_bits_stay_near_and_a_spoilt_model_does_not(tmp_path: Path, mini_checkpoint: Checkpoint) -> None:
    def compared(spoilt: bool) -> Forced:
        return measure_forced(lambda: _mini(tmp_path), lambda: _other(tmp_path, mini_checkpoint, spoilt=spoilt), FRAMES)

    near, far = compared(False), compared(True)
    assert near.top_equal >= 0.8 * FRAMES and 0 < near.kl_nats < 0.1
    assert far.top_equal <= 0.2 * FRAMES and far.kl_nats > 10 * near.kl_nats
