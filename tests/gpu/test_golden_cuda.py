"""The golden cases on a CUDA GPU in float32: the same tokens, all rows through the batched, masked attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.golden import CASES, GREEDY, Case, Reference, case_plan, case_talk

from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import Weights, load_weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU is usable here"),
]


@pytest.fixture(scope="module")
def cuda_weights(mini_checkpoint: Checkpoint) -> Weights:
    return load_weights(mini_checkpoint, torch.device("cuda"), torch.float32)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_greedy_tokens_are_the_reference_s(
    case: Case, cuda_weights: Weights, mini_checkpoint: Checkpoint, reference: Reference
) -> None:
    ours, theirs = case_talk(case, cuda_weights, mini_checkpoint, reference)
    np.testing.assert_array_equal(ours, theirs)


def test_cases_side_by_side_give_the_same_tokens(
    cuda_weights: Weights, mini_checkpoint: Checkpoint, reference: Reference
) -> None:
    """Four talks in one batch, each at its own position."""
    cases = [case for case in CASES if case.context is None]
    model = LanguageModel(cuda_weights, len(cases))
    for slot, case in enumerate(cases):
        model.prime(slot, case_plan(case, mini_checkpoint, reference), GREEDY, 0)
    users = [torch.from_numpy(reference[f"{case.name}_user_codes"]).cuda() for case in cases]
    for index in range(min(user.shape[1] for user in users) - 1):
        step = model.advance(torch.stack([user[:, index] for user in users]), [True] * len(cases))
        rows = torch.cat([step.text[:, None], step.codes], dim=1).cpu().numpy()
        for row, case in zip(rows, cases, strict=True):
            np.testing.assert_array_equal(row, reference[f"{case.name}_step_outputs"][:9, index + 1])


def test_teacher_forced_logits(cuda_weights: Weights, reference: Reference) -> None:
    config = cuda_weights.config
    cache = torch.zeros(config.layers, 2, config.heads, 64, config.head_dim, device="cuda")
    columns = torch.from_numpy(reference["forward_input"]).T.cuda()
    with torch.inference_mode():
        hidden, logits = cuda_weights.temporal.prefill(cuda_weights.temporal.embed(columns), cache)
    np.testing.assert_allclose(hidden.cpu(), reference["forward_hidden"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(logits.cpu(), reference["forward_text_logits"], rtol=0, atol=1e-4)
