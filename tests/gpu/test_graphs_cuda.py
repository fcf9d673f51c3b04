"""Recorded steps on a GPU give what launched steps give, whatever moves between them. Never runs in CI."""

from __future__ import annotations

import pytest
import torch
from support.golden import CASES, GREEDY, Reference, case_plan

from personaplex_app.controls import SamplingSettings
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import load_weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]
FRAMES = 700  # beyond the first stride of the ring that attention reads
SLIDERS = {100: SamplingSettings(), 250: SamplingSettings(audio_top_k=0, repetition_penalty=1.2), 400: GREEDY}


def _tokens(recorded: bool, checkpoint: Checkpoint, reference: Reference) -> list[list[int]]:
    weights = load_weights(checkpoint, torch.device("cuda"), torch.float32)
    model = LanguageModel(weights, 2, recorded=recorded)
    plan = case_plan(CASES[0], checkpoint, reference)
    model.prime(0, plan, GREEDY, 5)
    model.prime(1, plan, SamplingSettings(), 6)
    generator = torch.Generator().manual_seed(3)
    found = []
    for frame in range(FRAMES):
        if frame in SLIDERS:
            model.set_sampling(0, SLIDERS[frame])
        codes = torch.randint(0, 2048, (2, 8), generator=generator).cuda()
        step = model.advance(codes, [True, frame % 7 != 3])
        found.append([int(step.text[0]), *step.codes[0].tolist()])
    return found


def test_recorded_equals_launched(mini_checkpoint: Checkpoint, reference: Reference) -> None:
    assert _tokens(True, mini_checkpoint, reference) == _tokens(False, mini_checkpoint, reference)
