"""The golden talks on a GPU, in float32: the reference's greedy tokens, 100 %. Never runs in CI."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.golden import CASES, Case, Reference, case_talk

from personaplex_app.audio import split_frames
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.codec import load_codec
from personaplex_app.model.loading import load_weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),  # another torch than the pinned one may run here
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_greedy_tokens_on_cuda(case: Case, mini_checkpoint: Checkpoint, reference: Reference) -> None:
    weights = load_weights(mini_checkpoint, torch.device("cuda"), torch.float32)
    ours, theirs = case_talk(case, weights, mini_checkpoint, reference)
    np.testing.assert_array_equal(ours, theirs)


def test_codec_on_cuda(mini_checkpoint: Checkpoint, reference: Reference) -> None:
    """Sound within 1e-4; codes equal but for the miniature's near-equal entries, which any other rounding splits."""
    codec = load_codec(mini_checkpoint.codec, mini_checkpoint.config, torch.device("cuda"), 1)
    frames = torch.from_numpy(split_frames(reference["mimi_wav"])).cuda()
    codes = torch.cat([codec.encode(frame[None]) for frame in frames]).T.cpu().numpy()
    assert (codes != reference["mimi_codes"])[:4].mean() <= 0.01
    columns = torch.from_numpy(reference["mimi_codes"]).T.cuda()
    pcm = torch.cat([codec.decode(column[None])[0] for column in columns]).cpu().numpy()
    np.testing.assert_allclose(pcm, reference["mimi_pcm"], rtol=0, atol=1e-4)
