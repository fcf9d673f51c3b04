"""The fast engine on a GPU: golden talks in every bucket, sliders that act, the same tokens from the same state."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from support.golden import CASES, GREEDY, Case, Reference, case_plan, with_context

from personaplex_app import assemble
from personaplex_app.controls import Choices, SamplingSettings
from personaplex_app.model.checkpoint import Checkpoint
from personaplex_app.model.config import CheckpointConfig, LanguageConfig
from personaplex_app.model.fast import stepper as fast_stepper
from personaplex_app.model.fast.language import FastLanguageModel
from personaplex_app.model.fast.stepper import FastStepper
from personaplex_app.model.language import LanguageModel
from personaplex_app.model.loading import Weights, load_weights, random_weights
from personaplex_app.model.prompts import plan_prompt
from personaplex_app.model.stepper import SpeechStepper
from personaplex_app.settings import EngineChoice

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore"),
]
CUDA = torch.device("cuda")
FRAMES = 60
CHANGE_AT = 20


@pytest.fixture(scope="module")
def cuda_weights(mini_checkpoint: Checkpoint) -> Weights:
    return load_weights(mini_checkpoint, CUDA, torch.float32)


@pytest.mark.parametrize("recorded", [False, True], ids=["launched", "recorded"])
@pytest.mark.parametrize("slots", [1, 2, 4, 8])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_golden_talks_in_the_last_row_of_a_bucket(
    case: Case, slots: int, recorded: bool, cuda_weights: Weights, mini_checkpoint: Checkpoint, reference: Reference
) -> None:
    if not recorded and (slots > 2 or case.name == "long"):
        pytest.skip("launched one by one it takes long and shows nothing more")
    model = FastLanguageModel(with_context(cuda_weights, case.context), slots, recorded=recorded)
    slot, live = slots - 1, [False] * (slots - 1) + [True]
    model.prime(slot, case_plan(case, mini_checkpoint, reference), GREEDY, 0)
    users = torch.from_numpy(reference[f"{case.name}_user_codes"]).T.to(CUDA)
    columns = []
    for user in users[:-1]:
        step = model.advance(user.expand(slots, -1), live)
        columns.append(torch.cat([step.text[:, None], step.codes], 1)[slot].cpu().numpy())
    np.testing.assert_array_equal(np.stack(columns, 1), reference[f"{case.name}_step_outputs"][:9, 1:])


def test_rows_that_draw_equal_the_plain_model_s(cuda_weights: Weights, mini_checkpoint: Checkpoint) -> None:
    settings = [GREEDY, SamplingSettings(repetition_penalty=1.2), SamplingSettings(text_top_k=0, audio_top_k=0)]
    models = LanguageModel(cuda_weights, 3), FastLanguageModel(cuda_weights, 3)
    for model in models:
        for slot, one in enumerate(settings):
            model.prime(slot, plan_prompt(None, [5 + slot, 6, 7], mini_checkpoint.config), one, 70 + slot)
    dice, noise = random.Random(1), torch.Generator().manual_seed(1)
    for _ in range(FRAMES):
        user = torch.randint(0, 2048, (3, 8), generator=noise).cuda()
        live = [dice.random() < 0.8 for _ in range(3)]
        plain, fast = (model.advance(user, live) for model in models)
        for row in (row for row in range(3) if live[row]):
            assert torch.equal(plain.next_text[row], fast.next_text[row])
            assert torch.equal(plain.codes[row], fast.codes[row])


def _mini(cache: Path, **changes: object) -> SpeechStepper:
    return assemble.build_stepper(EngineChoice("mini", cache, device="cuda", slots=2, **changes))  # type: ignore[arg-type]


def _talk(stepper: SpeechStepper, change: SamplingSettings | None) -> tuple[list[list[int]], list[list[int]]]:
    noise = np.random.default_rng(5)
    stepper.prime(0, stepper.open(Choices("Be kind.", "none", SamplingSettings(), 9)))
    tokens, heard = [], []
    for frame in range(FRAMES):
        if change is not None and frame == CHANGE_AT:
            stepper.set_sampling(0, change)
        step = stepper.step({0: (0.1 * noise.standard_normal(1920)).astype(np.float32)})[0]
        assert step.healthy
        tokens.append(step.tokens.tolist())
        heard.append(step.heard_codes.tolist())
    stepper.release(0)
    return tokens, heard


def test_a_slider_moved_in_mid_call_changes_what_a_recorded_frame_draws(tmp_path: Path) -> None:
    stepper = _mini(tmp_path)
    assert isinstance(stepper, FastStepper) and not stepper.remark
    (usual, _), (again, _), (moved, _) = _talk(stepper, None), _talk(stepper, None), _talk(stepper, GREEDY)
    assert usual == again, "the same seed, the same talk"
    assert moved[:CHANGE_AT] == usual[:CHANGE_AT] and moved[CHANGE_AT:] != usual[CHANGE_AT:]


def test_a_frame_from_sound_to_sound_is_the_plain_model_s_for_the_codes_it_heard(
    tmp_path: Path, cuda_weights: Weights
) -> None:
    stepper = _mini(tmp_path)
    tokens, heard = _talk(stepper, None)
    plain = LanguageModel(cuda_weights, 1)
    opening = stepper.open(Choices("Be kind.", "none", SamplingSettings(), 9))
    plain.prime(0, opening.plan, opening.sampling, opening.seed)
    for token, codes in zip(tokens, heard, strict=True):
        step = plain.advance(torch.tensor([codes]).cuda(), [True])
        assert [int(step.text[0]), *step.codes[0].tolist()] == token


def test_where_the_fast_engine_fails_the_plain_one_runs_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(fast_stepper.FastStepper, "_warm_up", broken)
    stepper = _mini(tmp_path)
    assert type(stepper) is SpeechStepper and "fast engine cannot run" in stepper.remark
    assert type(_mini(tmp_path, plain=True)) is SpeechStepper


@pytest.mark.parametrize("cache", [None, torch.int8], ids=["bfloat16", "int8"])
def test_the_same_state_gives_the_same_tokens_at_full_width(cache: torch.dtype | None) -> None:
    config = LanguageConfig(layers=4)
    model = FastLanguageModel(random_weights(config, CUDA, torch.bfloat16), 2, cache)
    model.prime(0, plan_prompt(None, [5] * 40, CheckpointConfig(language=config)), SamplingSettings(), 3)
    saved, found = model.save(0), []
    for _ in range(2):
        model.restore(0, saved)
        noise = torch.Generator().manual_seed(2)
        run = []
        for _ in range(FRAMES):
            step = model.advance(torch.randint(0, 2048, (2, 8), generator=noise).cuda(), [True, False])
            run.append([int(step.next_text[0]), *step.codes[0].tolist()])
        found.append(run)
    assert found[0] == found[1]
